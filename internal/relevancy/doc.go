// Package relevancy finds, among many items with a position and a radius, those whose radius
// reaches a point. It also spreads rounds over many items over the ticks of a period. It has
// no clock, goroutine or lock; its results, and their order, follow from the calls before.
package relevancy
