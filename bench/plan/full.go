package plan

import "github.com/quivernet/quiver/bench/job"

// Full is every table, each cell so many times.
func Full(runs int) []job.Job {
	return fullBlobs(runs)
}

// Quick is every contender and every scenario once.
func Quick() []job.Job {
	return quickBlobs()
}
