// Package scenes tries rate control in weather and in company: flows of ours beside models of others over one bottleneck,
// on pure machines in virtual time. [Run] plays a [Scene]; the table of scenes and what they must show stands in this
// package's tests, and the bench plots them.
package scenes
