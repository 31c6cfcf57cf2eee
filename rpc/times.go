package rpc

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/control"
)

// beat joins the game's clock, which may be set, run slowly or stand still, and the one that packets are timed with.
type beat struct{ game, real time.Time }

// at returns what the game's clock would say at a time of the other, if the world were driven then.
func (b beat) at(real time.Time) time.Time { return b.game.Add(real.Sub(b.real)) }

// arrivedAt returns when a message of the running Dispatch came, by the game's clock.
func (c *Conn) arrivedAt(m *bunch.Message) time.Time {
	b := c.world.beat
	return b.game.Add(-c.machine.Waited(b.real, m))
}

const (
	// A client asks again this long after it asked last: while it does not know the server's time well, and afterwards when
	// something else travels. Ten questions make a second, or ten round trips when those are longer.
	askSoon  = 100 * time.Millisecond
	askLater = time.Second
)

// times are a connection's questions for the time of the server's game, and the answers. They belong to the world's goroutine.
type times struct {
	// Of a client.
	wanted  bool        // ServerTime was called
	stirred bool        // something but times travelled since the last question
	asking  bool        // a question is on its way
	asked   time.Time   // when the last one left, real
	epoch   time.Time   // of clock, real
	clock   clock.Clock // of the server's game
	steps   atomic.Uint64
	refused atomic.Uint64

	// Of a server.
	question time.Time // when the one came that waits for Flush, real; zero: none does
}

// restless reports whether a client has to tick to learn the server's time.
func (t *times) restless() bool { return t.wanted && !t.asking && !t.clock.Settled() }

// due reports whether to ask.
func (t *times) due(real time.Time) bool {
	if !t.wanted || t.asking {
		return false
	}
	since := real.Sub(t.asked)
	return since >= askLater && t.stirred || since >= askSoon && !t.clock.Settled()
}

// ServerTime returns what the clock that the server's world is driven with says when this world's says now, how far off that may be
// at most, however unlike the ways there and back are, and whether anything is known yet. On a server it is now. It belongs to the
// world's goroutine, and now is a time near that of the last Dispatch.
//
// A client asks the server for its time from the first call on, so call it early, in OnConnect: the first answer takes a round trip,
// a good one a second, and then it asks once a second while something else travels. bound is about half of the least round trip
// and grows by 0.5 ms a second while nobody asks. As now grows, what is returned never falls, unless [Stats].ServerTime tells a
// step: the server's clock was set by more than a round trip, or stood still, which is believed after three answers that agree; a
// smaller step after some seconds. A time outside of the years 1823 to 2116 is not told. UE: AGameState::GetServerWorldTimeSeconds.
func (c *Conn) ServerTime(now time.Time) (t time.Time, bound time.Duration, ok bool) {
	if c.server {
		return now, 0, true
	}
	c.times.want(c.world)
	b := c.world.beat
	peer, bound, ok := c.times.clock.At(now.Sub(b.game) + b.real.Sub(c.times.epoch))
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(0, peer), bound, true
}

// want begins the questions.
func (t *times) want(w *World) {
	if !t.wanted {
		t.wanted, t.epoch = true, time.Now()
		w.signal() // Run would sleep
	}
}

// exchangeTimes asks and answers, at the end of a Flush, so that the simulation before it does not count.
func (w *World) exchangeTimes() {
	for _, c := range w.conns {
		switch {
		case !c.times.question.IsZero():
			c.answerTime(time.Now())
		case c.times.wanted && c.usable():
			c.askTime(time.Now())
		}
	}
}

func (c *Conn) askTime(real time.Time) {
	if t := &c.times; t.due(real) {
		t.asking, t.asked, t.stirred = true, real, false
		c.sendControl(control.AppendAskTime(nil))
	}
}

func (c *Conn) answerTime(real time.Time) {
	t := &c.times
	now := c.world.beat.at(real)
	if far := int64(clock.Farthest / time.Second); now.Unix() < -far || now.Unix() >= far {
		return // the question stays, and the client asks no more
	}
	held := max(0, real.Sub(t.question))
	t.question = time.Time{}
	c.sendControl(control.AppendTime(nil, control.Time{Now: now.UnixNano(), Held: held}))
}

// sendControl sends a message of channel 0.
func (c *Conn) sendControl(message []byte) {
	c.link.Lock()
	defer c.link.Unlock()
	c.world.cork(c)
	_ = c.machine.Send(0, bunch.Reliable, message) // which fails with the connection only
}

// onTime takes a question or an answer. There is never more than one question on its way.
func (c *Conn) onTime(message any) *CloseError {
	t, arrived := &c.times, c.world.beat.real.Add(c.world.arrived.Sub(c.world.beat.game))
	answer, isAnswer := message.(control.Time)
	switch {
	case isAnswer && t.asking:
		t.take(answer, arrived)
		return nil
	case !isAnswer && c.server && t.question.IsZero():
		t.question = arrived
		return nil
	case isAnswer:
		return violationf(ControlChannelMessageFail, "Time that was not asked for")
	}
	return violationf(ControlChannelMessageFail, "AskTime before the last one was answered, or from the server")
}

// take takes an answer.
func (t *times) take(answer control.Time, arrived time.Time) {
	t.asking = false
	if !t.clock.Add(clock.Sample{Asked: t.asked.Sub(t.epoch), Answered: arrived.Sub(t.epoch), Held: answer.Held, Peer: answer.Now}) {
		t.refused.Add(1)
	}
	t.steps.Store(t.clock.Steps())
}
