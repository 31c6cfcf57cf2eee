package pace

import "time"

const (
	// playGain is the gain of a look while there is play (the game's own traffic), which has to
	// wait in the queue that the look makes. Beside 4 MiB at 10 Mbit/s and 50 ms, play's 99th
	// percentile is 4 ms shorter than with lookGain, and the transfer takes no longer.
	//
	// It would be too low without play. If all controllers looked with it, many of them wouldn't
	// share as evenly, and would take more from constant traffic.
	playGain = 7.0 / 6

	// playLasts is for how long we expect more play after its last packet. A game sends more often.
	playLasts = time.Second
)

// play remembers when the owner has last sent play, which shares the path with bulk but
// shouldn't have to wait.
type play struct{ last instant } // 0 = never

// lookGain returns the gain of a look that begins now.
func (p play) lookGain(t instant) float64 {
	if p.last > 0 && t-p.last < playLasts {
		return playGain
	}
	return lookGain
}
