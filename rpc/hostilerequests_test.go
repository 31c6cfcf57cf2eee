package rpc

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/testkit"
)

var (
	clerk      = NewClass("Clerk")
	clerkAsk   = ServerRequest[int, string](clerk, "Ask")
	clerkTell  = ServerRequest[shot, None](clerk, "Tell")
	clerkAdmit = ClientRequest[shot, int](clerk, "Admit")
	clerkSwear = ClientRequest[None, oath](clerk, "Swear")
)

// oath is an answer whose check does something.
type oath struct{ Text string }

var checkOath = func() {}

func (oath) Validate() error { checkOath(); return nil }

// clerkObject keeps all who ask waiting.
type clerkObject struct {
	answers []func(string, error)
	ran     int
}

// withClerk is inNet with a clerk that the client owns.
func withClerk(t *testing.T, config Config, fn func(n *network, here, there *Actor)) {
	t.Helper()
	config.Classes = []*Class{clerk}
	inNet(t, 1, config, func(n *network) {
		for _, w := range []*testWorld{n.server, n.clients[0]} {
			b := Bind(w.World, clerk, func(*Actor) *clerkObject { return new(clerkObject) })
			OnRequest(b, clerkAsk, func(o *clerkObject, call *Call, n int) (string, error) {
				o.ran++
				if n == 0 {
					return "now", nil
				}
				o.answers = append(o.answers, clerkAsk.Later(call))
				return "", nil
			})
			OnRequest(b, clerkTell, func(o *clerkObject, _ *Call, _ shot) (None, error) { return None{}, nil })
			OnRequest(b, clerkSwear, func(*clerkObject, *Call, None) (oath, error) { return oath{"truly"}, nil })
			OnRequest(b, clerkAdmit, func(o *clerkObject, _ *Call, s shot) (int, error) { return s.Ammo, nil })
		}
		a, err := n.server.Spawn(clerk, n.conns[0])
		require.NoError(t, err)
		n.tick(3)
		fn(n, a, n.mirror(0, a))
	})
}

func questionBytes[A, R any](t *testing.T, r *Request[A, R], number uint64, arg A) []byte {
	t.Helper()
	whole := encoded(t, r.question, arg)
	head := r.question.appendID(nil)
	return append(ask.AppendQuestion(head, number), whole[len(head):]...)
}

func answerBytes[A, R any](r *Request[A, R], b []byte) []byte {
	return append(r.answer.appendID(nil), b...)
}

// TestHostileRequests: what no honest end sends closes the connection, with a code that says why.
func TestHostileRequests(t *testing.T) {
	for name, row := range map[string]struct {
		payloads func(t *testing.T) [][]byte
		code     Code
		reason   string
	}{
		"no number":   {func(*testing.T) [][]byte { return [][]byte{clerkAsk.question.appendID(nil)} }, PayloadFail, "without a number"},
		"number zero": {func(t *testing.T) [][]byte { return [][]byte{questionBytes(t, clerkAsk, 0, 1)} }, PayloadFail, "without a number"},
		"twice": {func(t *testing.T) [][]byte {
			return [][]byte{questionBytes(t, clerkAsk, 3, 1), questionBytes(t, clerkAsk, 3, 1)}
		},
			PayloadFail, "question 3 asked twice"},
		"long cancel": {func(*testing.T) [][]byte {
			return [][]byte{append(ask.AppendCancel(clerkAsk.question.appendID(nil), 3), 0)}
		},
			PayloadFail, "1 byte left over"},
		"bad argument": {func(t *testing.T) [][]byte {
			return [][]byte{append(ask.AppendQuestion(clerkAsk.question.appendID(nil), 3), 0xc1)}
		}, PayloadFail, "Clerk.Ask"},
		"Validate":        {func(t *testing.T) [][]byte { return [][]byte{questionBytes(t, clerkTell, 3, shot{-1})} }, ValidationFailed, "ammo is negative"},
		"wrong direction": {func(t *testing.T) [][]byte { return [][]byte{questionBytes(t, clerkAdmit, 3, shot{1})} }, WrongDirection, "Clerk.Admit"},
		"answer to what only clients ask": {func(*testing.T) [][]byte {
			return [][]byte{answerBytes(clerkAsk, ask.AppendAnswer(nil, 3, ask.Answered))}
		},
			WrongDirection, "Clerk.Ask.Answer"},
		"no verdict":      {func(*testing.T) [][]byte { return [][]byte{answerBytes(clerkAdmit, []byte{3})} }, PayloadFail, "is truncated"},
		"unknown verdict": {func(*testing.T) [][]byte { return [][]byte{answerBytes(clerkAdmit, []byte{3, 99})} }, PayloadFail, "verdict 99"},
		"long text": {func(*testing.T) [][]byte {
			return [][]byte{answerBytes(clerkAdmit, append([]byte{3, byte(ask.Refused), 0}, make([]byte, ask.MaxText+1)...))}
		}, PayloadFail, "text has "},
	} {
		t.Run(name, func(t *testing.T) {
			withClerk(t, Config{}, func(n *network, _, there *Actor) {
				for _, payload := range row.payloads(t) {
					smuggle(t, there, payload)
				}
				n.tick(3)
				closed := n.conns[0].closeError()
				require.Equal(t, row.code, closed.Code, "%v", closed)
				require.Contains(t, closed.Reason, row.reason)
			})
		})
	}
}

// mute is the handler of questions that nobody answers.
type mute struct{ handler }

func (mute) bound() bool                        { return true }
func (mute) runRemote(any, *Call, []byte) error { return nil }

// muteAdmit makes an actor say nothing by itself when it is asked Admit.
func muteAdmit(a *Actor) { a.own.binding.handlers[clerkAdmit.question.id] = mute{} }

// TestBadAnswersEndTheirQuestion: a bad answer ends its question, on a server together with the
// connection. A client does not close the connection for an answer that its Validate refuses.
func TestBadAnswersEndTheirQuestion(t *testing.T) {
	withClerk(t, Config{}, func(n *network, here, there *Actor) {
		muteAdmit(there)
		var heard []error
		require.NoError(t, clerkAdmit.Then(here, shot{1}, func(_ int, err error) { heard = append(heard, err) }))
		n.tick(2)
		smuggle(t, there, answerBytes(clerkAdmit, append(ask.AppendAnswer(nil, 1, ask.Answered), 0xc1)))
		n.tick(3)
		require.Len(t, heard, 1)
		var closed *CloseError
		require.ErrorAs(t, heard[0], &closed)
		require.Equal(t, PayloadFail, closed.Code)
	})
}

// TestAnswersWhoseCheckEndsTheActor: the question ends once, with the actor.
func TestAnswersWhoseCheckEndsTheActor(t *testing.T) {
	withClerk(t, Config{}, func(n *network, here, _ *Actor) {
		var errs []error
		require.NoError(t, clerkSwear.Then(here, None{}, func(_ oath, err error) { errs = append(errs, err) }))
		checks := 0
		checkOath = func() {
			if checks++; checks == 2 { // of who asked; the first is of who answers
				require.NoError(t, n.server.Destroy(here))
			}
		}
		defer func() { checkOath = func() {} }()
		n.tick(5)
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], ErrClosed)
	})
}

// TestAnswersNeverAskedFor: floods of answers with invented numbers, of another
// actor, or of another request only cost their counting.
func TestAnswersNeverAskedFor(t *testing.T) {
	withClerk(t, Config{}, func(n *network, here, there *Actor) {
		c := n.conns[0]
		var heard int
		b, err := n.server.Spawn(clerk, c)
		require.NoError(t, err)
		n.tick(3)
		muteAdmit(there)
		require.NoError(t, clerkAdmit.Then(here, shot{1}, func(int, error) { heard++ }))
		n.tick(2)
		smuggle(t, n.mirror(0, b), answerBytes(clerkAdmit, append(ask.AppendAnswer(nil, 1, ask.Answered), 7)))
		for i := range 100 {
			smuggle(t, there, answerBytes(clerkAdmit, append(ask.AppendAnswer(nil, uint64(i)+2, ask.Answered), 0xc1))) // not even read
		}
		n.tick(10)
		require.Zero(t, heard)
		require.EqualValues(t, 101, c.Stats().Drops.Answers)
		for range 2 {
			smuggle(t, there, answerBytes(clerkAdmit, append(ask.AppendAnswer(nil, 1, ask.Answered), 7)))
		}
		n.tick(3)
		require.Equal(t, 1, heard)
		require.EqualValues(t, 102, c.Stats().Drops.Answers)
		require.NoError(t, c.Err())
		require.Zero(t, c.requests.asked.Len())
	})
}

// TestFloodsOfQuestions: questions that exceed Config.MaxRequests are not decoded, kept or
// run, and the asker is told so. Cancels of questions that were never asked have no effect.
func TestFloodsOfQuestions(t *testing.T) {
	withClerk(t, Config{MaxRequests: 5}, func(n *network, here, there *Actor) {
		c := n.conns[0]
		for i := range 30 {
			for k := range 30 {
				smuggle(t, there, questionBytes(t, clerkAsk, uint64(30*i+k)+1, 1))
			}
			smuggle(t, there, ask.AppendCancel(clerkAsk.question.appendID(nil), 1<<60))
			n.tick(3)
		}
		object := here.own.object.(*clerkObject)
		require.Equal(t, 5, object.ran)
		require.Equal(t, 5, c.requests.questions.Len())
		require.EqualValues(t, 895, c.Stats().Drops.Requests)
		require.EqualValues(t, 895, n.ends[0].Stats().Drops.Answers, "each was answered")
		require.NoError(t, c.Err())
		for _, number := range []uint64{1, 2, 3} {
			smuggle(t, there, ask.AppendCancel(clerkAsk.question.appendID(nil), number))
			smuggle(t, there, ask.AppendCancel(clerkAsk.question.appendID(nil), number))
		}
		n.tick(3)
		require.Equal(t, 2, c.requests.questions.Len())
		for _, answer := range object.answers {
			answer("late", nil)
		}
		n.tick(3)
		require.Zero(t, c.requests.questions.Len())
		require.EqualValues(t, 3, c.Stats().Drops.Answers)
	})
}

// TestRandomRequestBytes: nothing that a peer sends of requests panics or
// leaves something open for ever.
func TestRandomRequestBytes(t *testing.T) {
	random := testkit.Rand(t)
	for range 40 {
		withClerk(t, Config{MaxRequests: 4, RequestTime: time.Second}, func(n *network, here, there *Actor) {
			from, to := there, here
			methods := []*method{clerkAsk.question, clerkTell.question, clerkAdmit.answer}
			if random.IntN(2) == 0 {
				from, to = here, there
				methods = []*method{clerkAsk.answer, clerkTell.answer, clerkAdmit.question}
			}
			ended := 0
			for range 3 {
				if to == there {
					_ = clerkAsk.Then(there, 1, func(string, error) { ended++ })
				} else {
					_ = clerkAdmit.Then(here, shot{1}, func(int, error) { ended++ })
				}
			}
			for range 30 {
				b := methods[random.IntN(len(methods))].appendID(nil)
				for range random.IntN(6) {
					b = append(b, byte(random.IntN(12)))
				}
				if random.IntN(4) == 0 {
					b = binary.AppendUvarint(b, random.Uint64())
				}
				if c := from.openings[0].conn; !c.usable() || to.dead {
					break
				}
				smuggle(t, from, b)
				if random.IntN(4) == 0 {
					n.tick(1)
				}
				if len(from.openings) == 0 {
					break
				}
			}
			n.tick(90)
			require.Equal(t, 3, ended)
			require.Zero(t, n.conns[0].requests.asked.Len()+n.ends[0].requests.asked.Len())
		})
	}
}

// TestRequestErrorsFit: what a handler says may be anything.
func TestRequestErrorsFit(t *testing.T) {
	e := &RequestError{Request: "Clerk.Ask", Text: "why", cause: ErrUnbound}
	require.Equal(t, "rpc: Clerk.Ask has no answer: why", e.Error())
	require.True(t, errors.Is(e, ErrUnbound))
	require.Equal(t, "rpc: Clerk.Ask refused: why", (&RequestError{Request: "Clerk.Ask", Text: "why", Refused: true}).Error())
	require.Contains(t, (*RequestError)(nil).Error(), "return nil instead")
	require.NoError(t, (*RequestError)(nil).Unwrap())
}

// TestRequestErrorsNameItOnce: what was asked stands in the error once, whatever refused it.
func TestRequestErrorsNameItOnce(t *testing.T) {
	withClerk(t, Config{}, func(n *network, here, there *Actor) {
		var full error
		for full == nil {
			full = clerkAsk.Then(there, 1, func(string, error) {})
		}
		require.NoError(t, n.server.Destroy(here))
		n.tick(3)
		gone := clerkAsk.Then(there, 1, func(string, error) {})
		for _, err := range []error{full, gone} {
			require.Equal(t, 1, strings.Count(err.Error(), "Clerk.Ask"), "%v", err)
		}
	})
}

// TestQuestionTwiceWhileItWaits: a question that waits for actors counts as open, too.
func TestQuestionTwiceWhileItWaits(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		c := &Conn{world: n.clients[0].World, requests: newRequests(1)}
		c.waiting.calls = []waitingCall{{question: 3}}
		payload := questionBytes(t, clerkAdmit, 3, shot{1})[len(clerkAdmit.question.appendID(nil)):]
		violation := n.clients[0].invokeRequest(c, &Actor{class: clerk}, clerkAdmit.question, payload)
		require.NotNil(t, violation)
		require.Contains(t, violation.Reason, "question 3 asked twice")
	})
}
