package budget

import (
	"math"
	"time"
)

const (
	// maxDebt is how far the world, or a connection's part, can go into debt. Anything more is
	// forgiven, so even after an hour of resends it takes only about a second until the
	// connection's unreliable data is sent again, and until others can use what it leaves.
	maxDebt = time.Second

	// usersWindow is the time after which a connection that sends nothing no longer counts as in
	// use. A connection in use sends several times a second, if only acks.
	usersWindow = time.Second
)

// A part is one connection's equal part of the world's rate, which the others can't use up. Without
// parts, a single connection with many resends, which never wait, could use up the rate, so that
// data that does wait would be sent to nobody.
//
// As long as the world's savings cover what is sent, parts don't matter: every connection may use
// what others leave, and isn't charged for it later. What is sent beyond the savings puts the world
// into debt, and is charged to the part of the connection that sends it. While the world is in
// debt, a connection only has to wait until its own part is out of debt.
//
// Its methods are called with the lock of its [Allowance] held.
type part struct {
	world   *Meter    // nil if the world's rate has no limit
	paid    time.Time // when everything charged is paid for; see Meter.paid
	counted uint64    // the last window in which users counted the connection
}

// spend counts bytes when the connection sends them, as Meter.spend does, and charges the part
// with what the world's savings don't cover. Bulk is charged twice, so that the world gets out of
// debt even if all connections have bulk, after which bulk gets only what play leaves.
func (p *part) spend(now time.Time, size int, bulk bool) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users.count(p, now)
	cost := w.time(size)
	debt := max(w.paid.Sub(now), -w.savings)
	if debt <= maxDebt {
		w.paid = now.Add(debt + cost)
	}
	if uncovered := min(cost, debt+cost); uncovered > 0 {
		if bulk {
			uncovered *= 2
		}
		p.charge(now, uncovered)
	}
}

// charge adds bytes to the debt that take the time cost at the world's rate. The caller holds the
// world's lock.
func (p *part) charge(now time.Time, cost time.Duration) {
	if debt := p.debt(now); debt <= maxDebt {
		p.paid = now.Add(debt + p.scaled(cost))
	}
}

// debt returns how long it takes until everything charged is paid for. It's negative if the part
// has saved up. The caller holds the world's lock.
func (p *part) debt(now time.Time) time.Duration { return max(p.paid.Sub(now), -p.savings()) }

// scaled returns the time that bytes take at the part's rate, if they take cost at the world's.
// The caller holds the world's lock.
func (p *part) scaled(cost time.Duration) time.Duration {
	return cost * time.Duration(p.world.users.inUse())
}

// savings returns the time for which the part saves up, as a meter of its rate would. The
// caller holds the world's lock.
func (p *part) savings() time.Duration { return max(idleSavings, p.scaled(p.world.time(Floor))) }

// play returns how long unreliable data must wait until the part covers it, if queued bytes are
// sent first. A connection that is alone has no part besides the world's rate.
func (p *part) play(now time.Time, queued int) time.Duration {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users.inUse() == 1 {
		return math.MaxInt64
	}
	return max(0, p.debt(now)+p.scaled(w.time(queued)))
}

// bulk returns the same for bulk. Bulk has no part unless the world is in debt, because otherwise
// play comes first. As with a meter, it can't use the second half of the savings.
func (p *part) bulk(now time.Time) time.Duration {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users.inUse() == 1 || !w.paid.After(now) {
		return math.MaxInt64
	}
	return max(0, p.debt(now)+p.savings()/2)
}

// users counts the connections in use, which are those that sent something in the current or the
// previous window of usersWindow. It has no list of them, and needn't be told when one ends.
type users struct {
	window   uint64    // number of the current window of time, from 1
	start    time.Time // when it began
	current  int       // connections that sent something in it
	previous int       // the same for the window before
}

// count counts the connection with part p when it sends something.
func (u *users) count(p *part, now time.Time) {
	if past := now.Sub(u.start); past >= usersWindow {
		u.previous = u.current
		if past >= 2*usersWindow {
			u.previous = 0
		}
		u.window++
		u.start = now
		u.current = 0
	}
	if p.counted != u.window {
		p.counted = u.window
		u.current++
	}
}

// inUse returns the number of connections in use, but at least 1.
func (u *users) inUse() int { return max(1, u.current, u.previous) }
