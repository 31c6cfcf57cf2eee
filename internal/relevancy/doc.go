// Package relevancy finds, among many items that stand somewhere, those that a point is near enough to: nearer than the item's own
// radius; and it spreads rounds over many items over the ticks of a period. It has no clock, no goroutine and no lock; what it returns, and
// in which order, follows from the calls before.
package relevancy
