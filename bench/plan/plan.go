// Package plan lists the jobs of a run.
package plan

import (
	"regexp"

	"github.com/quivernet/quiver/bench/job"
)

// Only returns the jobs whose name matches.
func Only(jobs []job.Job, name *regexp.Regexp) []job.Job {
	var kept []job.Job
	for _, j := range jobs {
		if name.MatchString(j.Cell()) {
			kept = append(kept, j)
		}
	}
	return kept
}

// seed is the seed of the first run. It is the same for all peers, so they meet the same losses.
const seed = 0x9e3779b97f4a7c15

// repeat returns a job runs times. Each run has a seed of its own, so its path loses other packets.
func repeat(j job.Job, runs int) []job.Job {
	var jobs []job.Job
	for run := range runs {
		j.Run, j.Seed = run, seed+uint64(run)*0x632be59bd9b4e019
		jobs = append(jobs, j)
	}
	return jobs
}
