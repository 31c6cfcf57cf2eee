package pace

import (
	"math"
	"time"
)

const (
	// If losses are our doing, we expect suspects to be lost moreLoss times as often as others. A
	// comparison is evidence for that if they are lost more than about twice as often, and against
	// it otherwise.
	moreLoss = 4

	// A comparison shows at most maxEvidence, and proof is enough to prove that losses are our
	// doing. So it takes three comparisons: a radio that loses packets in spells may lose some in a
	// look and none in the drain after it, but rarely in three looks in a row. For the same reason,
	// evidence to the contrary counts up to twice as much, and a little evidence is forgotten with
	// each comparison.
	maxEvidence, proof, forgotten = 2, 4, 0.3

	// For the losses of looks to count, at least the share restLoss of all other packets must be
	// lost. On a path that we have to ourselves, with a queue of a few packets, only looks lose
	// any, and nobody suffers. Once a short queue has dropped packets of a look (look.maxExtra),
	// later looks prove even less, so it must be shortRestLoss. Otherwise random loss of 1 % would
	// seem to be our doing.
	restLoss, shortRestLoss = 0.002, 0.03

	// For the losses of queues to count, at least the share restLoss of the packets must be lost,
	// and minDelayed must have met a queue. A radio that fades delays and loses the same packets,
	// but not as many.
	minDelayed = 0.25

	// If a sharing ended because nobody else needed the path, nothing counts as proved for
	// alonePause times as long as it took. That doubles each time, up to maxDoublings times.
	alonePause = 2

	// clearQueue is a queue at which CoDel drops nothing, a little below its target of 5 ms (RFC
	// 8289, section 3.2).
	clearQueue = 4 * time.Millisecond

	// firstBlame is how long we compare before anything counts as proved. A transfer that is over
	// sooner can't starve other flows.
	firstBlame = 2 * time.Second
)

// A blame gathers evidence that losses which seem random are our doing.
//
// Random losses don't depend on how much we send. Losses at a policer, at CoDel, or in a queue too
// short to see do, even if other flows cause most of them. Policers and short queues drop more of
// the packets that we send in a look than of those in the drain that pays it back. CoDel acts too
// slowly for that, but it drops none of the packets that meet no queue.
type blame struct {
	began  instant // when the first comparison was made; 0 = none yet
	next   instant // earliest time of the next proof
	alone  int     // how many sharings on this path ended because nobody else needed it
	looks  float64 // evidence from looks
	queues float64 // evidence from queues

	// Fates since the last comparison of packets whose queue wasn't high; of a run of losses, only
	// the first counts. Acked and Lost add to them.
	clear   tally // of packets that met no queue
	delayed tally // of the others
}

// at returns the tally for packets that met the given queue, which wasn't high.
func (b *blame) at(queue time.Duration) *tally {
	if queue < clearQueue {
		return &b.clear
	}
	return &b.delayed
}

// compare adds the evidence of a look, and of the queues that packets have met since the last one.
// It clears the tallies of both, and reports whether losses have been proved our doing.
func (b *blame) compare(t instant, l *look) (proved bool) {
	if b.began == 0 {
		b.began = t
	}
	b.looks = max(b.looks+lookEvidence(l)-forgotten, 0)
	b.queues = max(b.queues+b.queueEvidence()-forgotten, 0)
	l.outcome, l.payback, l.rest = tally{}, tally{}, tally{}
	b.clear, b.delayed = tally{}, tally{}
	return max(b.looks, b.queues) >= proof && t >= max(b.next, b.began+firstBlame)
}

// lookEvidence returns the evidence of a look.
func lookEvidence(l *look) float64 {
	required := restLoss
	if l.maxExtra > 0 {
		required = shortRestLoss
	}
	shown := evidence(l.outcome.events(), l.payback.events())
	if l.rest.events().share() < required {
		return min(shown, 0)
	}
	return shown
}

// queueEvidence returns the evidence of the queues that packets have met.
func (b *blame) queueEvidence() float64 {
	shown := evidence(b.delayed, b.clear)
	all := b.clear
	all.add(b.delayed)
	if all.share() < restLoss || float64(b.delayed.count()) < minDelayed*float64(all.count()) {
		return min(shown, 0)
	}
	return shown
}

// sharedAlone is called when a sharing of the given length ends because nobody else needed the
// path.
func (b *blame) sharedAlone(t instant, took time.Duration) {
	b.next = t + alonePause*took<<min(b.alone, maxDoublings)
	b.alone++
}

// evidence returns what the fates of two groups of packets show: a positive number if the suspects
// are lost more often than the others, a negative one if they are lost about as often. It's the
// logarithm of the ratio of two likelihoods, given how many are lost in all.
func evidence(suspects, others tally) float64 {
	if suspects.count() < minLookPackets || others.count() < minLookPackets/2 {
		return 0
	}
	n, m := float64(suspects.count()), float64(others.count())
	alike, more := n/(n+m), moreLoss*n/(moreLoss*n+m)
	shown := float64(suspects.lost)*math.Log(more/alike) + float64(others.lost)*math.Log((1-more)/(1-alike))
	return min(max(shown, -2*maxEvidence), maxEvidence)
}

// checkBlame compares the packets of the newest look with others, and reports whether losses have
// been proved our doing. It does so at the end of round lookRounds+1 of Cruise: even a swift look,
// which ends in the round in which it began, is closed by then, and the next one isn't due before
// minPause rounds. If the next look begins sooner, because there is room, this one isn't compared.
// Without a new look, only the queues are.
func (c *Controller) checkBlame(t instant) bool {
	return c.rounds == lookRounds+1 && c.look.number != c.looks.before && c.blame.compare(t, &c.look)
}
