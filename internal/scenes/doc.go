// Package scenes tries rate control in weather and in company: flows of ours beside models of others over one bottleneck,
// on pure machines in virtual time. [Run] plays a [Scene]; the table of scenes and what they must show stands in this
// package: go test ./internal/scenes -v -run TestTable -rows '*' -seeds 9 prints it, '!' before what is not met.
//
// The table asks for more than the controller of internal/pace reaches today: in jitter, clumps, crowds and on short queues it
// collapses. testdata/controller.patch is a next one, on trial: it misses some 60 of 230 rows, and by far only beside
// BBR on short queues, behind policers, when many start at once and where a third of the packets is late; it needs README's figures measured anew before it takes over.
package scenes
