// Package scenes tests rate control on bad paths and beside other flows. Flows of ours and
// models of other stacks share one bottleneck, on pure machines in virtual time.
//
// [Run] plays a [Scene]. [Table] returns the table of scenes and what each must show. go test
// ./internal/scenes -v -run TestTable -rows '*' -seeds 9 prints the table, with '!' before
// bounds that are not met. TestNoCollapse plays an eighth of the table each time, with a new
// seed.
package scenes
