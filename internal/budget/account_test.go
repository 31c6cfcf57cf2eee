package budget

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestPool: half of it is kept for small charges, and a large one takes half of
// what is free beside that.
func TestPool(t *testing.T) {
	p := NewPool(1000)
	require.False(t, p.take(Party{}, 251, 0), "more than half of the 500 that are not kept")
	require.True(t, p.take(Party{}, 250, 0))
	require.False(t, p.take(Party{}, 126, 0))
	require.True(t, p.take(Party{}, 125, 0))
	require.EqualValues(t, 625, p.Free())

	t.Logf("# small ones use what is kept, large ones up to what they may have of it")
	require.True(t, p.take(Party{}, 300, 300))
	require.False(t, p.take(Party{}, 1, 0), "nothing is free but what is kept")
	require.False(t, p.take(Party{}, 201, 200))
	require.True(t, p.take(Party{}, 200, 200))
	require.False(t, p.take(Party{}, 126, 126), "more than there is")
	require.True(t, p.take(Party{}, 125, 125))
	require.Zero(t, p.Free())

	p.give(Party{}, 1000, 0)
	require.True(t, p.take(Party{}, 200, 100), "100 that are kept, and at most 200 of the others")
	require.EqualValues(t, 800, p.Free())
}

// TestChargesCoverWhatIsHeld uses the accounts of one pool at random: the charge
// of an account covers what it holds or was promised, the pool lacks exactly
// what its accounts are charged, and a closed account has returned everything.
func TestChargesCoverWhatIsHeld(t *testing.T) {
	r := testkit.Rand(t)
	const bytes = 1 << 20
	pool := NewPool(bytes)
	accounts := make([]*Account, 4)
	for i := range accounts {
		accounts[i] = NewAccount(pool, Terms{Floor: 5000, Early: 1000, GoOn: 2000})
		accounts[i].Bill([]Party{{}, {Identity: "ann"}, {Identity: "ann"}, {Identity: "bob"}}[i])
	}
	for range 10_000 {
		a, n := accounts[r.IntN(len(accounts))], 1+r.Int64N(1<<r.IntN(18))
		before, _ := a.Charge()
		switch r.IntN(8) {
		case 0:
			a.Hold(n, r.IntN(2) == 0)
		case 1:
			a.Borrow(n, r.IntN(2) == 0)
		case 2:
			a.Promise(n)
		case 3:
			a.MustHold(min(n, 100))
		case 4:
			a.Drop(min(n, before.Held))
		case 5:
			a.Withdraw(min(n, before.Promised))
		case 6:
			a.Repay(min(n, before.Borrowed))
		case 7:
			a.Return(min(n, before.Borrowed))
		}
		left := int64(bytes)
		for _, a := range accounts {
			sums, charged := a.Charge()
			require.GreaterOrEqual(t, charged, sums.minCharge())
			require.LessOrEqual(t, charged, sums.maxCharge(a.terms.GoOn))
			left -= charged
		}
		require.Equal(t, left, pool.Free())
		require.Equal(t, min(accounts[1].charged, 5000)+min(accounts[2].charged, 5000), pool.floorUse[Party{Identity: "ann"}])
	}
	for _, a := range accounts {
		a.Close()
	}
	require.EqualValues(t, bytes, pool.Free())
	require.Empty(t, pool.floorUse)
}

// A hundred connections of one client that began transfers and sent nothing had
// all of the kept part, so that nobody else could begin one.
func TestOnePartyLeavesSomeOfTheKeptPart(t *testing.T) {
	pool, floor := NewPool(8000), int64(200)
	accounts := func(party Party) (begun int) {
		for {
			a := NewAccount(pool, Terms{Floor: floor})
			a.Bill(party)
			if !a.Promise(floor) {
				return begun
			}
			begun++
		}
	}
	ann := accounts(Party{Identity: "ann"})
	require.GreaterOrEqual(t, ann, 17, "seven eighths of what is kept")
	require.Less(t, ann, 20)
	require.GreaterOrEqual(t, accounts(Party{Identity: "bob"}), 17)
	require.GreaterOrEqual(t, accounts(Party{Identity: "eve"}), 2)
}

// TestHoldBeyond: bytes that may be held beyond promises are held even if the pool
// has nothing left, and not a byte more. Nothing is promised until they are returned.
func TestHoldBeyond(t *testing.T) {
	pool := NewPool(1000)
	other, a := NewAccount(pool, Terms{}), NewAccount(pool, Terms{Floor: 1000})
	require.True(t, a.Promise(100))
	other.MustBorrow(pool.Free())
	require.False(t, a.HoldBeyond(151, 50))
	require.True(t, a.HoldBeyond(150, 50))
	require.False(t, a.HoldBeyond(1, 50))
	require.EqualValues(t, -50, pool.Free())
	require.False(t, a.Promise(51))
	a.Drop(150)
	require.Zero(t, pool.Free())
	a.Close()
	require.False(t, a.HoldBeyond(1, 50))
	require.EqualValues(t, 100, pool.Free())
}

// TestRoomToGoOn: in a full pool promised bytes fit, and an awaited chunk has its room, so
// that transfers that have begun continue; nothing else fits. An account that no longer holds
// anything has returned everything, and one whose connection has ended is charged for nothing.
func TestRoomToGoOn(t *testing.T) {
	pool := NewPool(1000)
	other, a := NewAccount(pool, Terms{}), NewAccount(pool, Terms{Floor: 1000, Early: 10, GoOn: 50})
	require.True(t, a.Promise(100))
	others := pool.Free()
	require.EqualValues(t, 850, others)
	other.MustBorrow(others)

	require.True(t, a.Hold(100, false))
	require.False(t, a.Hold(5, false))
	require.True(t, a.Hold(40, true))
	require.False(t, a.Hold(20, true))
	require.False(t, a.Borrow(10, false))
	require.True(t, a.Borrow(10, true))
	require.False(t, a.Borrow(1, true))
	require.Zero(t, pool.Free())
	a.Return(10)
	require.Zero(t, pool.Free(), "it refills the room")
	require.True(t, a.Borrow(10, true))
	a.Drop(140)
	require.Zero(t, pool.Free(), "the promise stands")
	a.Withdraw(100)
	require.EqualValues(t, 140, pool.Free())

	other.Repay(others)
	require.True(t, a.Hold(10, false))
	require.False(t, a.Hold(1, false), "it may come early, but no more")
	require.True(t, a.Borrow(20, false))
	require.EqualValues(t, 1000-10-30-50, pool.Free())
	a.SetTerms(Terms{Floor: 1000})
	require.EqualValues(t, 1000-10-30, pool.Free())
	a.MustHold(5)
	require.EqualValues(t, 1000-15-30, pool.Free())

	a.Close()
	require.False(t, a.Hold(1, true) || a.Borrow(1, true) || a.Promise(1))
	a.MustBorrow(7)
	a.Drop(15)
	require.EqualValues(t, 1000, pool.Free())
}
