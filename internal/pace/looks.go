package pace

const (
	// leastPause and mostPause are how many rounds lie between two looks: BBR looks in one round of 8. The number varies, so that two
	// controllers do not look at the same time for long.
	leastPause, mostPause = 6, 9
	// shallowPause is how many times as long the pause is when a look costs losses: then they are 1 % of the packets.
	shallowPause = 3
)

// looks is what the looks so far have shown of the path, and what follows for the next one.
type looks struct {
	pause      int     // how many rounds of Cruise lie before the next look
	extra      float64 // by how much the next look's gain is to lie above 1; look.least and look.most bound it
	inVain     bool    // the last look found nothing, and since then no round had a queue: a new look need not hurry
	shallow    bool    // the last look met loss in place of a queue: the path drops what exceeds its rate
	payingBack bool    // Drain follows a look, which has made no queue above twice the target
	fitting    fitting
	play       play
}

// distance returns how many rounds to cruise before the next look. It depends on the time, which differs between controllers.
func (l *looks) distance(t instant) int {
	pause := leastPause + int(scatter(t)%(mostPause-leastPause+1))
	if l.shallow {
		pause *= shallowPause
	}
	return pause
}

// scatter returns a number that depends on the time as if by chance.
func scatter(t instant) uint64 { return uint64(t) / 1024 * 0x9E3779B97F4A7C15 >> 32 }
