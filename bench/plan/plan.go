// Package plan says which jobs a run has.
package plan

import (
	"regexp"

	"github.com/quivernet/quiver/bench/job"
)

// Only keeps the jobs whose name matches.
func Only(jobs []job.Job, name *regexp.Regexp) []job.Job {
	var kept []job.Job
	for _, j := range jobs {
		if name.MatchString(j.Cell()) {
			kept = append(kept, j)
		}
	}
	return kept
}

// seed is of the first run's path; every peer meets the same.
const seed = 0x9e3779b97f4a7c15

// repeat returns a job so many times, each over a path with other fates.
func repeat(j job.Job, runs int) []job.Job {
	var jobs []job.Job
	for run := range runs {
		j.Run, j.Seed = run, seed+uint64(run)*0x632be59bd9b4e019
		jobs = append(jobs, j)
	}
	return jobs
}
