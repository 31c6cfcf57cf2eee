package rpc

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/trace/tracetest"
	"github.com/quivernet/quiver/rpc/dos"
)

// strict is a profile that blocks from the tenth call of a frame on, and lets
// two of each method run a second then.
func strict() *dos.Profile {
	return &dos.Profile{States: []dos.State{
		{Name: "Normal"},
		{Name: "Strict", Frame: dos.Load{Calls: 10}, Repeat: dos.Load{Calls: 2}, RepeatWindow: time.Second, Cooloff: 2 * time.Second},
	}}
}

// TestBlockedQuestionsAreAnswered: an asker whose question is blocked is told
// at once, and need not wait until its time is over.
func TestBlockedQuestionsAreAnswered(t *testing.T) {
	withClerk(t, Config{DoS: strict()}, func(n *network, _, there *Actor) {
		answered := 0
		var errs []error
		for range 30 {
			require.NoError(t, clerkAsk.Then(there, 0, func(_ string, err error) {
				if answered++; err != nil {
					errs = append(errs, err)
				}
			}))
		}
		n.tick(5)
		require.Equal(t, 30, answered)
		require.Len(t, errs, 19, "nine before the tenth made it strict, and two of that state")
		for _, err := range errs {
			var e *RequestError
			require.ErrorAs(t, err, &e)
			require.True(t, e.RateLimited)
			require.ErrorContains(t, err, "Config.DoS")
		}
		require.EqualValues(t, 19, n.conns[0].Stats().Drops.Blocked)
		require.NoError(t, n.conns[0].Err())
	})
}

// TestCancelsAreNotBlocked: cancels are not blocked, because they make room,
// nor are answers, which this side has requested.
func TestCancelsAreNotBlocked(t *testing.T) {
	withClerk(t, Config{DoS: strict()}, func(n *network, here, there *Actor) {
		c := n.conns[0]
		smuggle(t, there, questionBytes(t, clerkAsk, 1, 1))
		n.tick(3)
		require.Equal(t, 1, c.requests.questions.Len())
		for range 12 {
			smuggle(t, there, questionBytes(t, clerkAsk, 2, 0))
		}
		smuggle(t, there, ask.AppendCancel(clerkAsk.question.appendID(nil), 1))
		n.tick(3)
		require.Zero(t, c.requests.questions.Len())
		heard := 0
		for range 12 {
			require.NoError(t, clerkAdmit.Then(here, shot{Ammo: 1}, func(_ int, err error) {
				require.NoError(t, err)
				heard++
			}))
		}
		n.tick(5)
		require.Equal(t, 12, heard)
	})
}

// TestTraceOfBlockedCalls: the calls after a blocked one keep the times of their own arrival.
func TestTraceOfBlockedCalls(t *testing.T) {
	var file bytes.Buffer
	withClerk(t, Config{Trace: &file, DoS: strict()}, func(n *network, _, there *Actor) {
		asks := func(times int) {
			for range times {
				require.NoError(t, clerkAsk.Then(there, 0, func(string, error) {}))
			}
			n.tick(3)
		}
		asks(20)
		time.Sleep(3 * time.Second) // until it has cooled off
		asks(1)
	})
	trace, err := tracetest.Parse(file.Bytes())
	require.NoError(t, err)
	ran := trace.Named(tracetest.Begin, "Clerk.Ask")
	require.Len(t, ran, 12)
	require.GreaterOrEqual(t, ran[11].At-ran[10].At, uint64(3*time.Second))
}
