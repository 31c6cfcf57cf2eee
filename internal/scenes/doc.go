// Package scenes tries rate control in weather and in company: flows of ours beside models of others over one bottleneck,
// on pure machines in virtual time. [Run] plays a [Scene]; the table of scenes and what they must show stands in this
// package: go test ./internal/scenes -v -run TestTable -rows '*' -seeds 9 prints it, '!' before what is not met. TestNoCollapse
// plays an eighth of it each time, with a new seed.
package scenes
