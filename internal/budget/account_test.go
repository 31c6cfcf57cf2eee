package budget

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChargesCoverWhatIsHeld plays accounts of one pool at random: what an account is charged for covers what it holds or was
// promised, the pool lacks what its accounts are charged, and who closes has given all back.
func TestChargesCoverWhatIsHeld(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const bytes = 1 << 20
	pool := NewPool(bytes)
	accounts := make([]*Account, 4)
	for i := range accounts {
		accounts[i] = NewAccount(pool, Terms{Floor: 5000, Early: 1000, GoOn: 2000})
	}
	for range 10_000 {
		a, n := accounts[r.IntN(len(accounts))], 1+r.Int64N(1<<r.IntN(18))
		before, _ := a.Charge()
		switch r.IntN(7) {
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
		}
		left := int64(bytes)
		for _, a := range accounts {
			sums, charged := a.Charge()
			require.GreaterOrEqual(t, charged, sums.least())
			require.LessOrEqual(t, charged, sums.most(a.terms.GoOn))
			left -= charged
		}
		require.Equal(t, left, pool.Free())
	}
	for _, a := range accounts {
		a.Close()
	}
	require.EqualValues(t, bytes, pool.Free())
}
