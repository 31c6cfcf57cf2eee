// Package relevancy finds, among many items with a position and a radius, those whose radius
// reaches a point. It also spreads rounds over many items across the ticks of a period. It
// uses no clock, goroutine or lock. Its results and their order follow from earlier calls
// alone.
package relevancy
