package budget

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJobsOfEndedConnections: they count for the party until they return, once
// each, and nothing stays in the table.
func TestJobsOfEndedConnections(t *testing.T) {
	var jobs Jobs
	var first, second, other ConnJobs
	ann, bob := Party{Identity: "ann"}, Party{Address: netip.MustParsePrefix("192.0.2.1/32")}
	jobs.Start(&first)
	jobs.Start(&first)
	require.Equal(t, 2, jobs.Running(&first, ann))
	require.Zero(t, jobs.Running(&second, ann), "each connection that lives has its own")
	jobs.End(&first, ann)
	jobs.End(&first, ann)
	jobs.Start(&second)
	require.Equal(t, 3, jobs.Running(&second, ann))
	require.Zero(t, jobs.Running(&other, bob))
	jobs.Done(&first)
	jobs.Start(&first) // by a handler that ran when the connection ended
	jobs.End(&second, ann)
	require.Equal(t, 3, jobs.Running(&other, ann))
	jobs.Done(&second)
	jobs.Done(&first)
	jobs.Done(&first)
	require.Empty(t, jobs.ended)

	jobs.Start(&other)
	jobs.End(&other, Party{})
	require.Equal(t, 1, jobs.Running(new(ConnJobs), Party{}), "who has neither an identity nor an address is like the others")
	require.Zero(t, jobs.Running(new(ConnJobs), bob))
	jobs.Done(&other)
	require.Empty(t, jobs.ended)
}
