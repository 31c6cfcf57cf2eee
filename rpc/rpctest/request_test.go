package rpctest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// A shop sells to its customer, who may be asked for an opinion.
var (
	shop    = rpc.NewClass("Shop")
	buy     = rpc.ServerRequest[offer, receipt](shop, "Buy")
	browse  = rpc.ServerRequest[int, string](shop, "Browse", rpc.AnyCaller(), rpc.RateLimit(5))
	opinion = rpc.ClientRequest[string, int](shop, "Opinion")
	price   = rpc.ServerRequest[rpc.None, rpc.Raw](shop, "Price", rpc.AnyCaller())
	chatter = rpc.Client[int](shop, "Chatter", rpc.Reliable)
)

type offer struct {
	Item string `quiver:"max=20"`
	Gold int
}

func (o offer) Validate() error {
	if o.Gold < 0 {
		return errors.New("nobody pays less than nothing")
	}
	return nil
}

type receipt struct{ Number int }

const soldOut = 7

// keeper is the shop at either end.
type keeper struct {
	actor  *rpc.Actor
	side   *market
	buyer  func(call *rpc.Call, o offer) (receipt, error)
	thinks func(call *rpc.Call, about string) (int, error)
	heard  []string
}

func (k *keeper) buy(call *rpc.Call, o offer) (receipt, error) {
	if k.buyer != nil {
		return k.buyer(call, o)
	}
	return receipt{o.Gold}, nil
}

func (k *keeper) opinion(call *rpc.Call, about string) (int, error) {
	if k.thinks != nil {
		return k.thinks(call, about)
	}
	return len(about), nil
}

// market is a world with shops.
type market struct {
	*rpc.World
	shops   *rpc.Binding[*keeper]
	keepers []*keeper
	conn    *rpc.Conn // of a client
}

func newMarket(t *testing.T, config rpc.Config, unbound bool) *market {
	t.Helper()
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	m := &market{World: w}
	m.shops = rpc.Bind(w, shop, func(a *rpc.Actor) *keeper {
		m.keepers = append(m.keepers, &keeper{actor: a, side: m})
		return m.keepers[len(m.keepers)-1]
	})
	rpc.On(m.shops, chatter, func(k *keeper, _ *rpc.Call, n int) { k.heard = append(k.heard, fmt.Sprint("chatter ", n)) })
	if unbound {
		return m
	}
	rpc.OnRequest(m.shops, buy, (*keeper).buy)
	rpc.OnRequest(m.shops, browse, func(_ *keeper, _ *rpc.Call, n int) (string, error) { return strings.Repeat("x", n), nil })
	rpc.OnRequest(m.shops, opinion, (*keeper).opinion)
	rpc.OnRequest(m.shops, price, func(*keeper, *rpc.Call, rpc.None) (rpc.Raw, error) { return rpc.Raw("cheap"), nil })
	return m
}

// street is a server and clients, the first of which owns a shop.
type street struct {
	t       *testing.T
	net     *rpctest.Network
	server  *market
	clients []*market
	conns   []*rpc.Conn // the server's
	here    *keeper     // at the server
	there   *keeper     // at the first client
}

func newStreet(t *testing.T, net *rpctest.Network, server, client rpc.Config) *street {
	t.Helper()
	s := &street{t: t, net: net}
	server.OnConnect = func(_ *rpc.World, c *rpc.Conn) { s.conns = append(s.conns, c) }
	s.server = newMarket(t, server, false)
	net.Server(s.server.World)
	for range 2 {
		m := newMarket(t, client, false)
		m.conn = net.Client(m.World)
		s.clients = append(s.clients, m)
	}
	_, k, err := rpc.Spawn(s.server.shops, s.conns[0], nil, rpc.AlwaysRelevant())
	require.NoError(t, err)
	s.here = k
	require.True(t, net.Until(30*time.Second, func() bool { return len(s.clients[0].keepers) == 1 && len(s.clients[1].keepers) == 1 }))
	s.there = s.clients[0].keepers[0]
	return s
}

// outcome is what a function for an answer hears.
type outcome[R any] struct {
	times  int
	result R
	err    error
	at     time.Duration
}

// then asks on the world's goroutine, which is the test's.
func then[A, R any](s *street, r *rpc.Request[A, R], a *rpc.Actor, arg A) *outcome[R] {
	s.t.Helper()
	o := new(outcome[R])
	require.NoError(s.t, r.Then(a, arg, func(result R, err error) {
		*o = outcome[R]{o.times + 1, result, err, s.net.Elapsed()}
	}))
	return o
}

// ask asks on a goroutine of its own.
func ask[A, R any](ctx context.Context, s *street, r *rpc.Request[A, R], a *rpc.Actor, arg A) *outcome[R] {
	o := new(outcome[R])
	go func() {
		result, err := r.Ask(ctx, a, arg)
		*o = outcome[R]{1, result, err, s.net.Elapsed()}
	}()
	return o
}

func (s *street) until(done func() bool) {
	s.t.Helper()
	require.True(s.t, s.net.Until(60*time.Second, done))
}

func requestError(t *testing.T, err error) *rpc.RequestError {
	t.Helper()
	var e *rpc.RequestError
	require.ErrorAs(t, err, &e)
	return e
}

// later makes the server keep its customers waiting. It returns what answers,
// and the contexts of those that wait.
func (s *street) later() (answers *[]func(receipt, error), waiting *[]context.Context) {
	answers, waiting = new([]func(receipt, error)), new([]context.Context)
	s.here.buyer = func(call *rpc.Call, _ offer) (receipt, error) {
		*answers = append(*answers, buy.Later(call))
		*waiting = append(*waiting, call.Context())
		return receipt{-1}, nil // ignored
	}
	return answers, waiting
}

// TestRequestsBothWays: to the server and to the owner, waiting and not, on a
// good network and on a bad one.
func TestRequestsBothWays(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		a, b := then(s, buy, s.there.actor, offer{"sword", 30}), ask(t.Context(), s, buy, s.there.actor, offer{"shield", 20})
		c, d := then(s, opinion, s.here.actor, "four"), ask(t.Context(), s, opinion, s.here.actor, "sixsix")
		e := then(s, price, s.clients[1].keepers[0].actor, rpc.None{})
		s.until(func() bool { return a.times+b.times+c.times+d.times+e.times == 5 })
		require.NoError(t, errors.Join(a.err, b.err, c.err, d.err, e.err))
		require.Equal(t, []int{30, 20, 4, 6}, []int{a.result.Number, b.result.Number, c.result, d.result})
		require.Equal(t, "cheap", string(e.result))
	})
}

// TestRequestsOfOneWorld: a world that may answer its own request does so in the next Dispatch.
func TestRequestsOfOneWorld(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		mine, yours := then(s, buy, s.here.actor, offer{"sword", 30}), then(s, opinion, s.there.actor, "four")
		waits := ask(t.Context(), s, price, s.here.actor, rpc.None{})
		require.Zero(t, mine.times+yours.times+waits.times)
		net.Advance(time.Second)
		require.Equal(t, outcome[receipt]{1, receipt{30}, nil, mine.at}, *mine)
		require.Equal(t, 4, yours.result)
		require.Equal(t, "cheap", string(waits.result))

		s.here.buyer = func(*rpc.Call, offer) (receipt, error) {
			return receipt{1}, &rpc.RequestError{Code: soldOut, Text: "sold out"}
		}
		mine = then(s, buy, s.here.actor, offer{"sword", 30})
		net.Advance(time.Second)
		require.Equal(t, &rpc.RequestError{Request: "Shop.Buy", Code: soldOut, Text: "sold out", Refused: true}, mine.err)

		answers, waiting := s.later()
		mine = then(s, buy, s.here.actor, offer{"sword", 30})
		gone := then(s, buy, s.here.actor, offer{"shield", 20})
		net.Advance(time.Second)
		go (*answers)[0](receipt{5}, nil)
		net.Advance(time.Second)
		require.Equal(t, 5, mine.result.Number)
		require.Error(t, (*waiting)[0].Err())
		require.NoError(t, (*waiting)[1].Err())
		require.NoError(t, s.server.Destroy(s.here.actor))
		net.Advance(time.Second)
		require.ErrorIs(t, gone.err, rpc.ErrClosed)
		require.ErrorContains(t, context.Cause((*waiting)[1]), "ended")
		(*answers)[1](receipt{5}, nil)
		net.Advance(time.Second)
		require.Equal(t, 1, gone.times)
		require.EqualValues(t, 1, s.server.Dropped())
	})
}

// TestRefusals: a handler's error is sent as code and text, and closes nothing.
func TestRefusals(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		long := strings.Repeat("é", 1000)
		for _, row := range []struct {
			err  error
			code uint32
			text string
		}{
			{errors.New("too little gold"), 0, "too little gold"},
			{fmt.Errorf("wrapped: %w", &rpc.RequestError{Code: soldOut, Text: "sold out"}), soldOut, "sold out"},
			{errors.New(long), 0, long[:508] + "…"},
			{errors.New("a\xffb"), 0, "ab"},
		} {
			s.here.buyer = func(*rpc.Call, offer) (receipt, error) { return receipt{9}, row.err }
			o := then(s, buy, s.there.actor, offer{"sword", 1})
			s.until(func() bool { return o.times > 0 })
			require.Equal(t, &rpc.RequestError{Request: "Shop.Buy", Code: row.code, Text: row.text, Refused: true}, o.err)
			require.Zero(t, o.result)
		}
		require.ErrorContains(t, &rpc.RequestError{Request: "Shop.Buy", Code: 7, Text: "sold out", Refused: true}, "rpc: Shop.Buy refused with code 7: sold out")
		require.NoError(t, s.clients[0].conn.Err())
	})
}

var (
	errClosed = errors.New("the bank is closed")
	errPoor   = errors.New("too little")
	bank      = rpc.NewClass("Bank").Errors(errClosed, errPoor)
	withdraw  = rpc.ServerRequest[int, int](bank, "Withdraw")
)

// TestDeclaredErrors: an error that a class declares is the same for the asker
// and the handler, even in one world.
func TestDeclaredErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var fails error
		newWorld := func() *rpc.World {
			w, err := rpc.NewWorld(rpc.Config{})
			require.NoError(t, err)
			b := rpc.Bind(w, bank, func(a *rpc.Actor) *rpc.Actor { return a })
			rpc.OnRequest(b, withdraw, func(*rpc.Actor, *rpc.Call, int) (int, error) { return 0, fails })
			return w
		}
		server, client := net.Server(newWorld()), newWorld()
		conn := net.Client(client)
		here, err := server.Spawn(bank, server.Conns()[0])
		require.NoError(t, err)
		var there *rpc.Actor
		require.True(t, net.Until(time.Minute, func() bool {
			for a := range client.Actors() {
				there = a
			}
			return there != nil
		}))
		for _, row := range []struct {
			fails error
			code  uint32
			is    error
		}{
			{fmt.Errorf("%w: 7 of 9", errPoor), 2, errPoor},
			{errors.Join(errPoor, errClosed), 1, errClosed},
			{&rpc.RequestError{Code: 1, Text: "by its code"}, 1, errClosed},
			{errors.New("another"), 0, nil},
			{&rpc.RequestError{Code: 3, Text: "of no error"}, 3, nil},
			{&rpc.RequestError{Code: math.MaxUint32, Text: "of no error"}, math.MaxUint32, nil},
		} {
			fails = row.fails
			for _, a := range []*rpc.Actor{here, there} {
				var heard error
				require.NoError(t, withdraw.Then(a, 9, func(_ int, err error) { heard = err }))
				require.True(t, net.Until(time.Minute, func() bool { return heard != nil }))
				var e *rpc.RequestError
				require.ErrorAs(t, heard, &e)
				require.True(t, e.Refused)
				require.Equal(t, row.code, e.Code)
				require.Equal(t, row.is, errors.Unwrap(e))
				if row.is != nil {
					require.Equal(t, e.Text, e.Error())
				}
			}
		}
		require.NoError(t, conn.Err())
	})
}

// TestRequestsThatCanNotBeAsked: Then and Ask return the error.
func TestRequestsThatCanNotBeAsked(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{MaxRequests: 2}, rpc.Config{MaxRequests: 2})
		s.later()
		never := func(receipt, error) { t.Error("the function ran") }
		require.ErrorIs(t, buy.Then(s.clients[1].keepers[0].actor, offer{}, never), rpc.ErrNotOwner)
		require.ErrorContains(t, buy.Then(s.there.actor, offer{"", -1}, never), "nobody pays less than nothing")
		require.ErrorIs(t, buy.Then(s.there.actor, offer{strings.Repeat("x", 21), 1}, never), rpc.ErrTooLong)
		require.ErrorContains(t, buy.Then(nil, offer{}, never), "a nil *Actor")
		require.ErrorContains(t, buy.Then(s.there.actor, offer{}, nil), "nil function")
		_, err := buy.Ask(t.Context(), s.there.actor, offer{})
		require.ErrorIs(t, err, rpc.ErrOnWorld)
		then(s, buy, s.there.actor, offer{})
		then(s, buy, s.there.actor, offer{})
		full := buy.Then(s.there.actor, offer{}, never)
		require.ErrorIs(t, full, rpc.ErrBacklogFull)
		require.ErrorContains(t, full, "2 requests are open; the limit is 2 (Config.MaxRequests)")
		require.Equal(t, "Shop.Buy", requestError(t, full).Request)
		waits := ask(t.Context(), s, buy, s.there.actor, offer{})
		net.Advance(time.Second)
		require.ErrorIs(t, waits.err, rpc.ErrBacklogFull)

		require.NoError(t, s.server.Destroy(s.here.actor))
		net.Advance(time.Second)
		require.ErrorIs(t, requestError(t, buy.Then(s.there.actor, offer{}, never)), rpc.ErrClosed)
	})
}

// TestRequestsThatAreNotRun: a question is answered with an error if an RPC
// would be silently dropped.
func TestRequestsThatAreNotRun(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{MaxRequests: 3}, rpc.Config{})
		var quick []*outcome[string]
		for range 40 {
			quick = append(quick, then(s, browse, s.there.actor, 3))
		}
		limited := 0
		for _, o := range quick {
			s.until(func() bool { return o.times > 0 })
			if o.err != nil {
				limited++
				require.True(t, requestError(t, o.err).RateLimited)
				require.Contains(t, o.err.Error(), "RateLimit(5)")
			}
		}
		require.NoError(t, quick[0].err)
		require.Greater(t, limited, 10) // the path may spread them over some seconds
		require.EqualValues(t, limited, s.conns[0].Stats().Drops.RateLimited)

		answers, _ := s.later()
		var slow []*outcome[receipt]
		for range 5 {
			slow = append(slow, then(s, buy, s.there.actor, offer{}))
		}
		s.until(func() bool { return slow[3].times+slow[4].times == 2 })
		require.ErrorIs(t, slow[4].err, rpc.ErrBacklogFull)
		require.Contains(t, slow[4].err.Error(), "the other side has reached its limit of open requests (Config.MaxRequests)")
		require.EqualValues(t, 2, s.conns[0].Stats().Drops.Requests)
		for _, answer := range *answers {
			answer(receipt{1}, nil)
		}
		s.until(func() bool { return slow[2].times == 1 })
		require.NoError(t, slow[2].err)

		// The shop gets another owner while the question is on its way.
		late := then(s, buy, s.there.actor, offer{})
		require.NoError(t, s.server.SetOwner(s.here.actor, s.conns[1]))
		s.until(func() bool { return late.times == 1 })
		require.ErrorIs(t, late.err, rpc.ErrNotOwner)
		require.NoError(t, s.clients[0].conn.Err())
	})
}

// TestRequestsThatNobodyAnswers: the other side has bound nothing.
func TestRequestsThatNobodyAnswers(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var at *rpc.Conn
		server := newMarket(t, rpc.Config{OnConnect: func(_ *rpc.World, c *rpc.Conn) { at = c }}, true)
		net.Server(server.World)
		client := newMarket(t, rpc.Config{}, true)
		net.Client(client.World)
		a, err := server.Spawn(shop, at)
		require.NoError(t, err)
		net.Advance(time.Second)
		s := &street{t: t, net: net}
		up, down := then(s, buy, client.keepers[0].actor, offer{}), then(s, opinion, a, "what")
		require.ErrorIs(t, buy.Then(a, offer{}, func(receipt, error) {}), rpc.ErrUnbound, "here")
		net.Advance(time.Second)
		require.ErrorIs(t, requestError(t, up.err), rpc.ErrUnbound)
		require.ErrorIs(t, requestError(t, down.err), rpc.ErrUnbound)
	})
}

// TestAnswersThatCanNotTravel: both ends hear of it.
func TestAnswersThatCanNotTravel(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		o := then(s, browse, s.there.actor, 70_000)
		net.Advance(time.Second)
		require.ErrorContains(t, o.err, "rpc: Shop.Browse has no answer: Shop.Browse.Answer: call of 7000")
		require.ErrorContains(t, o.err, "the limit is 65536 (Config.Bunch.MaxBunch)")
		require.False(t, requestError(t, o.err).Refused)
	})
}

// TestRequestsInTheDark: 20 s without a packet. A request with enough time gets its answer.
// Another one gets an error in time, and the server's late answer is dropped and counted.
func TestRequestsInTheDark(t *testing.T) {
	rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		answers, waiting := s.later()
		first := then(s, buy, s.there.actor, offer{})
		s.until(func() bool { return len(*answers) == 1 })
		began := net.Elapsed()
		net.Dark(s.clients[0].conn, 20*time.Second)
		(*answers)[0](receipt{1}, nil) // it leaves, and is lost again and again
		patient, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		long, short := ask(patient, s, buy, s.there.actor, offer{}), then(s, buy, s.there.actor, offer{})
		s.until(func() bool { return short.times == 1 })
		require.InDelta(t, 10, (net.Elapsed() - began).Seconds(), 0.1)
		require.ErrorIs(t, short.err, context.DeadlineExceeded)
		require.ErrorContains(t, short.err, "timed out after 10s (Config.RequestTime)")
		require.ErrorIs(t, first.err, context.DeadlineExceeded)
		s.until(func() bool { return len(*answers) == 3 })
		require.Greater(t, net.Elapsed()-began, 20*time.Second)
		(*answers)[2](receipt{2}, nil)
		s.until(func() bool { return long.times == 1 })
		require.Equal(t, 2, long.result.Number)
		require.NoError(t, long.err)
		net.Advance(time.Second)
		require.ErrorContains(t, context.Cause((*waiting)[1]), "no longer waiting", "the server has heard of it")
		(*answers)[1](receipt{3}, nil)
		net.Advance(5 * time.Second)
		require.EqualValues(t, 1, s.clients[0].conn.Stats().Drops.Answers, "the first, which came late")
		require.EqualValues(t, 1, s.conns[0].Stats().Drops.Answers)
		require.Equal(t, 1, short.times)
	})
}

// TestRequestsWithLimitsOfTheirOwn: each ends at its own limit, earlier or
// later than Config.RequestTime, and the other end is told.
func TestRequestsWithLimitsOfTheirOwn(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{RequestTime: 2 * time.Second})
		answers, waiting := s.later()
		within := func(limit time.Duration, a *rpc.Actor) *outcome[receipt] {
			o := new(outcome[receipt])
			require.NoError(t, buy.ThenWithin(limit, a, offer{}, func(result receipt, err error) {
				*o = outcome[receipt]{o.times + 1, result, err, net.Elapsed()}
			}))
			return o
		}
		began := net.Elapsed()
		long, usual, short := within(5*time.Second, s.there.actor), then(s, buy, s.there.actor, offer{}), within(time.Second, s.there.actor)
		here := within(time.Second, s.here.actor) // of the server, of itself
		s.until(func() bool { return usual.times == 1 })
		require.InDelta(t, 1, (short.at - began).Seconds(), 0.1)
		require.InDelta(t, 1, (here.at - began).Seconds(), 0.1)
		require.InDelta(t, 2, (usual.at - began).Seconds(), 0.1)
		for _, o := range []*outcome[receipt]{short, here} {
			require.ErrorIs(t, requestError(t, o.err), context.DeadlineExceeded)
			require.ErrorContains(t, o.err, "timed out after 1s: ")
		}
		require.ErrorContains(t, usual.err, "timed out after 2s (Config.RequestTime)")
		net.Advance(time.Second)
		require.Len(t, *answers, 4)
		ended := 0
		for i, ctx := range *waiting {
			if ctx.Err() != nil {
				ended++
				continue
			}
			(*answers)[i](receipt{7}, nil)
		}
		require.Equal(t, 3, ended)
		s.until(func() bool { return long.times == 1 })
		require.NoError(t, long.err)
		require.Equal(t, 7, long.result.Number)

		none := buy.ThenWithin(0, s.there.actor, offer{}, func(receipt, error) { t.Error("the function ran") })
		require.ErrorIs(t, requestError(t, none), context.DeadlineExceeded)
		require.ErrorContains(t, none, "Shop.Buy has no answer: time limit of 0s")
		require.ErrorContains(t, buy.ThenWithin(time.Second, s.there.actor, offer{}, nil), "nil function")
		net.Advance(time.Second)
	})
}

// TestCanceledRequests: the other end is told, and has room again.
func TestCanceledRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{MaxRequests: 1}, rpc.Config{MaxRequests: 1})
		answers, waiting := s.later()
		for i := range 5 {
			ctx, cancel := context.WithCancelCause(t.Context())
			o := ask(ctx, s, buy, s.there.actor, offer{})
			s.until(func() bool { return len(*waiting) > i })
			why := errors.New("the player left the shop")
			cancel(why)
			net.Advance(50 * time.Millisecond)
			require.ErrorIs(t, o.err, context.Canceled)
			require.ErrorIs(t, o.err, why)
			require.Equal(t, "Shop.Buy", requestError(t, o.err).Request)
			s.until(func() bool { return (*waiting)[i].Err() != nil })
			require.ErrorContains(t, context.Cause((*waiting)[i]), "no longer waiting")
		}
		require.Len(t, *answers, 5)
	})
}

// TestCancelsThatCrossTheAnswer: whichever is first, each request ends once, and none stays open.
func TestCancelsThatCrossTheAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{MaxRequests: 4}, rpc.Config{MaxRequests: 4})
		answers, _ := s.later()
		random := rand.New(rand.NewPCG(net.Seed(), 1))
		answered, canceled := 0, 0
		for i := range 60 {
			ctx, cancel := context.WithCancel(t.Context())
			o := ask(ctx, s, buy, s.there.actor, offer{"", i})
			s.until(func() bool { return len(*answers) > i })
			go (*answers)[i](receipt{i}, nil)
			net.Advance(time.Duration(random.IntN(400)) * time.Millisecond)
			cancel()
			net.Advance(50 * time.Millisecond)
			require.Equal(t, 1, o.times)
			if o.err == nil {
				require.Equal(t, i, o.result.Number)
				answered++
			} else {
				require.ErrorIs(t, o.err, context.Canceled)
				canceled++
			}
		}
		t.Logf("%d answered, %d canceled", answered, canceled)
		require.NotZero(t, answered)
		net.Advance(settle)
		dropped := s.clients[0].conn.Stats().Drops.Answers + s.conns[0].Stats().Drops.Answers
		require.EqualValues(t, canceled, dropped, "answers that nobody heard are counted, once")
	})
}

// TestRequestsEndWithTheirActor: destroyed, closed, torn off; at either end.
func TestRequestsEndWithTheirActor(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		for name, end := range map[string]func(s *street) error{
			"destroyed": func(s *street) error { return s.server.Destroy(s.here.actor) },
			"closed":    func(s *street) error { s.here.actor.CloseTo(s.conns[0]); return nil },
			"torn off":  func(s *street) error { return s.here.actor.TearOff() },
		} {
			_, k, err := rpc.Spawn(newStreetOnce(t, net).server.shops, theStreet.conns[0], nil)
			require.NoError(t, err, name)
			s := theStreet
			s.here = k
			before := len(s.clients[0].keepers)
			s.until(func() bool { return len(s.clients[0].keepers) > before })
			s.there = s.clients[0].keepers[before]
			answers, waiting := s.later()
			var hold []func(int, error)
			var theirs []context.Context
			s.there.thinks = func(call *rpc.Call, _ string) (int, error) {
				hold, theirs = append(hold, opinion.Later(call)), append(theirs, call.Context())
				return 0, nil
			}
			up, down := then(s, buy, s.there.actor, offer{}), then(s, opinion, s.here.actor, "what")
			wait := ask(t.Context(), s, buy, s.there.actor, offer{})
			s.until(func() bool { return len(*answers) == 2 && len(hold) == 1 })
			require.NoError(t, end(s))
			s.until(func() bool { return up.times+down.times+wait.times == 3 })
			for _, err := range []error{up.err, down.err, wait.err} {
				require.ErrorIs(t, requestError(t, err), rpc.ErrClosed, name)
				require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			}
			require.Error(t, (*waiting)[0].Err(), name)
			require.Error(t, theirs[0].Err(), name)
			(*answers)[0](receipt{}, nil)
			hold[0](0, nil)
			net.Advance(settle)
			require.Equal(t, 1, up.times, name)
			require.NoError(t, s.clients[0].conn.Err(), name)
		}
		theStreet = nil
	})
}

var theStreet *street

func newStreetOnce(t *testing.T, net *rpctest.Network) *street {
	if theStreet == nil {
		theStreet = newStreet(t, net, rpc.Config{}, rpc.Config{})
	}
	return theStreet
}

// TestDormantActorsStayAwakeForRequests: until they are answered.
func TestDormantActorsStayAwakeForRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		answers, _ := s.later()
		o := then(s, buy, s.there.actor, offer{})
		s.until(func() bool { return len(*answers) == 1 })
		require.NoError(t, s.here.actor.SetDormant(true))
		net.Advance(3 * time.Second)
		require.False(t, s.there.actor.Dormant())
		(*answers)[0](receipt{3}, nil)
		s.until(func() bool { return o.times == 1 && s.there.actor.Dormant() })
		require.NoError(t, o.err)

		require.ErrorIs(t, requestError(t, buy.Then(s.there.actor, offer{}, func(receipt, error) {})), rpc.ErrDormant)
		down := then(s, opinion, s.here.actor, "what") // wakes it, as a Client RPC does
		s.until(func() bool { return down.times == 1 })
		require.NoError(t, down.err)
		require.Equal(t, 4, down.result)
		s.until(func() bool { return s.there.actor.Dormant() })
	})
}

// TestRequestsEndWithTheirConnection: the error is the connection's, at both ends.
func TestRequestsEndWithTheirConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		answers, waiting := s.later()
		s.there.thinks = func(call *rpc.Call, _ string) (int, error) { opinion.Later(call); return 0, nil }
		up, down := then(s, buy, s.there.actor, offer{}), then(s, opinion, s.here.actor, "what")
		waits := ask(t.Context(), s, buy, s.there.actor, offer{})
		s.until(func() bool { return len(*answers) == 2 })
		s.conns[0].Close(2000, "the market closes")
		s.until(func() bool { return up.times+down.times+waits.times == 3 })
		for _, err := range []error{up.err, down.err, waits.err} {
			var closed *rpc.CloseError
			require.ErrorAs(t, requestError(t, err), &closed)
			require.EqualValues(t, 2000, closed.Code)
			require.ErrorIs(t, err, rpc.ErrClosed)
		}
		require.Error(t, (*waiting)[0].Err())
		(*answers)[0](receipt{}, nil)
		net.Advance(time.Second)
		require.Equal(t, 1, up.times)
		require.ErrorIs(t, requestError(t, opinion.Then(s.there.actor, "", func(int, error) {})), rpc.ErrClosed)
	})
}

// TestRequestsEndWithTheirWorld: also of a world that nobody drives any more.
func TestRequestsEndWithTheirWorld(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		s.later()
		_, own, err := rpc.Spawn(s.server.shops, nil, nil)
		require.NoError(t, err)
		own.buyer = s.here.buyer
		mine, waits := then(s, buy, own.actor, offer{}), ask(t.Context(), s, buy, s.there.actor, offer{})
		net.Advance(time.Second)
		net.Pause(s.clients[0].World, time.Hour)
		require.NoError(t, s.clients[0].Close(t.Context(), 2001, "bye"))
		net.Advance(time.Second)
		var closed *rpc.CloseError
		require.ErrorAs(t, waits.err, &closed)
		require.EqualValues(t, 2001, closed.Code)
		require.Zero(t, mine.times)
		require.NoError(t, s.server.Close(t.Context(), 2002, "bye"))
		net.Advance(time.Second)
		require.ErrorAs(t, mine.err, &closed)
		require.EqualValues(t, 2002, closed.Code)
	})
}

// TestLaterFromAnotherGoroutine: once, and in any order.
func TestLaterFromAnotherGoroutine(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		s.here.buyer = func(call *rpc.Call, o offer) (receipt, error) {
			answer := buy.Later(call)
			go func() {
				time.Sleep(time.Duration(20-o.Gold) * 10 * time.Millisecond)
				answer(receipt{o.Gold}, nil)
				answer(receipt{-1}, nil)
			}()
			return receipt{}, nil
		}
		var all []*outcome[receipt]
		for i := range 20 {
			all = append(all, then(s, buy, s.there.actor, offer{"", i}))
		}
		for i, o := range all {
			s.until(func() bool { return o.times == 1 })
			require.NoError(t, o.err)
			require.Equal(t, i, o.result.Number)
		}
		net.Advance(time.Second)
		require.EqualValues(t, 20, s.conns[0].Stats().Drops.Answers, "the second answers")
		require.Panics(t, func() { buy.Later(&rpc.Call{Actor: s.here.actor}) })
		require.NoError(t, (&rpc.Call{}).Context().Err())
	})
}

// TestErrorsAfterLater: the asker gets the error at once, and a later answer is
// dropped and counted. An earlier answer counts.
func TestErrorsAfterLater(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		var answer func(receipt, error)
		var waiting context.Context
		s.here.buyer = func(call *rpc.Call, o offer) (receipt, error) {
			answer, waiting = buy.Later(call), call.Context()
			if o.Gold > 0 {
				answer(receipt{o.Gold}, nil)
			}
			return receipt{-1}, errors.New("could not even begin")
		}
		for _, shop := range []*rpc.Actor{s.there.actor, s.here.actor} {
			o := then(s, buy, shop, offer{})
			net.Advance(time.Second)
			require.Equal(t, &rpc.RequestError{Request: "Shop.Buy", Text: "could not even begin", Refused: true}, o.err)
			require.Error(t, waiting.Err())
			answer(receipt{5}, nil)
			net.Advance(time.Second)
			require.Equal(t, 1, o.times)

			o = then(s, buy, shop, offer{Gold: 7})
			net.Advance(time.Second)
			require.NoError(t, o.err)
			require.Equal(t, 7, o.result.Number)
		}
		require.EqualValues(t, 2, s.conns[0].Stats().Drops.Answers)
		require.EqualValues(t, 2, s.server.Dropped())
	})
}

// TestHandlersThatPanic: the asker learns of the connection's end, or in one
// world of the handler's.
func TestHandlersThatPanic(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		panics := 0
		s := newStreet(t, net, rpc.Config{OnPanic: func(*rpc.Conn, string, any, []byte) { panics++ }}, rpc.Config{})
		var ctx context.Context
		s.here.buyer = func(call *rpc.Call, _ offer) (receipt, error) { ctx = call.Context(); panic("the till is broken") }
		here := then(s, buy, s.here.actor, offer{})
		net.Advance(time.Second)
		require.ErrorContains(t, here.err, "the handler did not return")
		there := then(s, buy, s.there.actor, offer{})
		net.Advance(time.Second)
		var closed *rpc.CloseError
		require.ErrorAs(t, there.err, &closed)
		require.Equal(t, rpc.HandlerPanic, closed.Code)
		require.Equal(t, 2, panics)
		require.Error(t, ctx.Err())
	})
}

// TestChecksOfRequests: Check and Validate close, as for an RPC.
func TestChecksOfRequests(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		rpc.Check(s.server.shops, buy, func(_ *keeper, _ *rpc.Call, o offer) error {
			if o.Gold > 100 {
				return errors.New("nobody has as much")
			}
			return nil
		})
		require.Panics(t, func() { rpc.Check(s.server.shops, opinion, func(*keeper, *rpc.Call, string) error { return nil }) })
		good := then(s, buy, s.there.actor, offer{"", 1})
		net.Advance(time.Second)
		require.NoError(t, good.err)
		bad := then(s, buy, s.there.actor, offer{"", 101})
		net.Advance(time.Second)
		var closed *rpc.CloseError
		require.ErrorAs(t, bad.err, &closed)
		require.Equal(t, rpc.ValidationFailed, closed.Code)
	})
}

// TestRequestsAreOrderedWithCalls: calls that the server made before its answer
// run before the answer.
func TestRequestsAreOrderedWithCalls(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		s := newStreet(t, net, rpc.Config{}, rpc.Config{})
		n := 0
		s.here.buyer = func(*rpc.Call, offer) (receipt, error) {
			n++
			require.NoError(t, chatter.Call(s.here.actor, n))
			return receipt{n}, nil
		}
		for range 30 {
			require.NoError(t, buy.Then(s.there.actor, offer{}, func(r receipt, err error) {
				require.NoError(t, err)
				s.there.heard = append(s.there.heard, fmt.Sprint("receipt ", r.Number))
			}))
			net.Advance(20 * time.Millisecond)
		}
		s.until(func() bool { return len(s.there.heard) == 60 })
		for i := range 30 {
			require.Equal(t, []string{fmt.Sprint("chatter ", i+1), fmt.Sprint("receipt ", i+1)}, s.there.heard[2*i:2*i+2])
		}
	})
}

// TestRequestsAtRandom: in any case each request ends once, with its handler's
// answer or an error that fits, and in the end none is open.
func TestRequestsAtRandom(t *testing.T) {
	for range 3 {
		rpctest.Run(t, rpctest.Bad, randomRequests)
	}
}

func randomRequests(t *testing.T, net *rpctest.Network) {
	s := newStreet(t, net, rpc.Config{MaxRequests: 16}, rpc.Config{MaxRequests: 16, RequestTime: 2 * time.Second})
	random := rand.New(rand.NewPCG(net.Seed(), 2))
	var answers []func(receipt, error)
	s.here.buyer = func(call *rpc.Call, o offer) (receipt, error) {
		switch o.Gold % 4 {
		case 0:
			return receipt{o.Gold}, nil
		case 1:
			return receipt{}, &rpc.RequestError{Code: uint32(o.Gold), Text: "no"}
		}
		answer := buy.Later(call)
		answers = append(answers, func(receipt, error) { answer(receipt{o.Gold}, nil) })
		return receipt{}, nil
	}
	asked, ended, full := 0, 0, 0
	for range 400 {
		switch random.IntN(8) {
		case 0, 1, 2, 3:
			asked++
			n, times := asked, 0
			hear := func(r receipt, err error) {
				ended++
				times++
				require.Equal(t, 1, times)
				var e *rpc.RequestError
				switch {
				case err == nil:
					require.Equal(t, n, r.Number)
				case requestError(t, err).Refused:
					require.ErrorAs(t, err, &e)
					require.EqualValues(t, n, e.Code)
				default:
					require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, rpc.ErrBacklogFull), "%v", err)
				}
			}
			if random.IntN(2) == 0 {
				if err := buy.Then(s.there.actor, offer{"", n}, hear); err != nil {
					require.ErrorIs(t, err, rpc.ErrBacklogFull)
					ended++
					full++
				}
				break
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Millisecond)
			go func() {
				defer cancel()
				r, err := buy.Ask(ctx, s.there.actor, offer{"", n})
				s.clients[0].Post(func() { hear(r, err) })
			}()
		case 4, 5:
			if len(answers) > 0 {
				i := random.IntN(len(answers))
				go answers[i](receipt{}, nil)
			}
		case 6:
			if random.IntN(10) == 0 {
				net.Dark(s.clients[0].conn, time.Duration(random.IntN(4000))*time.Millisecond)
			}
		case 7:
			net.Advance(time.Duration(random.IntN(300)) * time.Millisecond)
		}
	}
	net.Advance(30 * time.Second)
	require.Equal(t, asked, ended)
	t.Logf("%d asked, %d found no room", asked, full)
	var last []*outcome[receipt]
	for range 16 { // all slots are free again, at both ends
		last = append(last, then(s, buy, s.there.actor, offer{"", 4}))
	}
	net.Advance(settle)
	for _, o := range last {
		require.NoError(t, o.err)
	}
}
