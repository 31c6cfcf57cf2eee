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
	jobs.Begin(&first)
	jobs.Begin(&first)
	require.Equal(t, 2, jobs.Of(&first, ann))
	require.Zero(t, jobs.Of(&second, ann), "each connection that lives has its own")
	jobs.End(&first, ann)
	jobs.End(&first, ann)
	jobs.Begin(&second)
	require.Equal(t, 3, jobs.Of(&second, ann))
	require.Zero(t, jobs.Of(&other, bob))
	jobs.Return(&first)
	jobs.Begin(&first) // by a handler that ran when the connection ended
	jobs.End(&second, ann)
	require.Equal(t, 3, jobs.Of(&other, ann))
	jobs.Return(&second)
	jobs.Return(&first)
	jobs.Return(&first)
	require.Empty(t, jobs.left)

	jobs.Begin(&other)
	jobs.End(&other, Party{})
	require.Equal(t, 1, jobs.Of(new(ConnJobs), Party{}), "who has neither an identity nor an address is like the others")
	require.Zero(t, jobs.Of(new(ConnJobs), bob))
	jobs.Return(&other)
	require.Empty(t, jobs.left)
}
