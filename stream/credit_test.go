package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// upTo covers so many bytes of credit.
func upTo(most int64) func(ahead int64) bool { return func(ahead int64) bool { return ahead <= most } }

func slowPace() time.Duration { return time.Second }

func TestCreditFollowsTheConsumer(t *testing.T) {
	now := epoch
	c := newCredit(now, 100, 400_000, 400_000)
	require.EqualValues(t, 400_100, c.limit)

	t.Log("# a quarter of the credit must be consumed")
	require.False(t, c.consume(100_099))
	_, due := c.nextLimit(now, slowPace, upTo(0))
	require.False(t, due)
	require.True(t, c.consume(100_100))
	limit, due := c.nextLimit(now, slowPace, upTo(0))
	require.True(t, due)
	require.EqualValues(t, 500_100, limit)
	_, due = c.nextLimit(now, slowPace, upTo(0))
	require.False(t, due)

	t.Log("# less is reported after a while")
	c.consume(100_101)
	_, due = c.nextLimit(now.Add(progressInterval-1), slowPace, upTo(0))
	require.False(t, due)
	limit, due = c.nextLimit(now.Add(progressInterval), slowPace, upTo(0))
	require.True(t, due)
	require.EqualValues(t, 500_101, limit)
}

func TestCreditLeavesRoomForTheLargestPart(t *testing.T) {
	c := newCredit(epoch, 0, minPending, minPending)
	require.False(t, c.consume(minPending-maxElementBytes), "it fits")
	require.True(t, c.consume(minPending-maxElementBytes+1))
	limit, due := c.nextLimit(epoch, slowPace, upTo(0))
	require.True(t, due)
	require.EqualValues(t, 2*minPending-maxElementBytes+1, limit)
}

func TestCreditDoublesForAFastConsumer(t *testing.T) {
	now := epoch
	c := newCredit(now, 0, 1000, 3000)
	c.consume(1000)
	limit, _ := c.nextLimit(now.Add(time.Second), slowPace, upTo(3000))
	require.EqualValues(t, 1000+2000, limit)

	t.Log("# not for a slow one")
	c.consume(3000)
	now = now.Add(3 * time.Second)
	limit, _ = c.nextLimit(now, slowPace, upTo(3000))
	require.EqualValues(t, 3000+2000, limit)

	t.Log("# only to the maximum")
	c.consume(5000)
	limit, _ = c.nextLimit(now, slowPace, upTo(3000))
	require.EqualValues(t, 5000+3000, limit)
	c.consume(8000)
	limit, _ = c.nextLimit(now, slowPace, upTo(3000))
	require.EqualValues(t, 8000+3000, limit)

	t.Log("# and within the budget")
	other := newCredit(now, 0, 1000, 3000)
	other.consume(1000)
	limit, _ = other.nextLimit(now, slowPace, upTo(1999))
	require.EqualValues(t, 1000+1000, limit)
}

// TestWhoHasNothingToSendJoins those that have, at each look.
func TestWhoHasNothingToSendJoins(t *testing.T) {
	one := &Transfer{allowance: allowance{hasAll: true}}
	s := sender{sending: []*Transfer{one}, shares: shares{now: 1000}}
	require.Nil(t, s.pickNext())
	require.EqualValues(t, 1000, one.share.spent)
}

func TestSharesServeByWeight(t *testing.T) {
	var clock shares
	transfers := []*share{{}, {}, {}}
	for i, weight := range []int32{1, 3, 10} {
		transfers[i].weight.Store(weight)
	}
	served := make([]int, len(transfers))
	serve := func(rounds int, among ...int) {
		clear(served)
		for range rounds {
			least := among[0]
			for _, i := range among {
				if transfers[i].spent < transfers[least].spent {
					least = i
				}
			}
			clock.serve(transfers[least], 1000)
			served[least]++
		}
	}
	serve(1400, 0, 1, 2)
	require.InDelta(t, 100, served[0], 1)
	require.InDelta(t, 300, served[1], 1)
	require.InDelta(t, 1000, served[2], 1)

	t.Log("# who had nothing to send has no claim on what passed")
	serve(1000, 0)
	clock.join(transfers[1])
	serve(400, 0, 1)
	require.InDelta(t, 100, served[0], 2)
	require.InDelta(t, 300, served[1], 2)
}
