// Package scenes tests rate control on bad paths and beside other flows. Our flows and models of
// other stacks share one bottleneck. All of them are pure state machines, driven in virtual time.
//
// [Run] plays a [Scene]. [Table] returns the table of scenes and what each must show. go test
// ./internal/scenes -v -run TestTable -rows '*' -seeds 9 prints the table, with '!' before each
// bound that is missed. TestNoCollapse plays an eighth of the table each time, with a new seed.
package scenes
