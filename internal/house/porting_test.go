package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	ruleID = regexp.MustCompile(`^\d+(\.\d+)?[a-z]+$`)
	// verdict is how the third cell of a rule begins, and what it says beside that.
	verdict = regexp.MustCompile(`^(?:(kept)(?:: (.+))?|\*\*(changed|absent)\*\*: (.+))$`)
)

// rule is a row of PORTING.md: what becomes of one of Unreal's rules.
type rule struct{ id, unreal, verdict, says, tests string }

// TestPortingRules holds that each of Unreal's rules has one row in PORTING.md,
// in order; that those which are kept or changed name tests, which exist; and
// that those which are absent say what to do instead.
func TestPortingRules(t *testing.T) {
	root, files := tree(t)
	rules := portingRules(t, root)
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.id)
	}
	require.Equal(t, ruleIDs(t), ids, "each rule of testdata/unreal-ids.txt has one row, in order")
	tests := testFunctions(files)
	for _, r := range rules {
		named := namedTest.FindAllStringSubmatch(r.tests, -1)
		assert.NotEmpty(t, r.unreal, r.id)
		assert.Equal(t, r.verdict == "absent", len(named) == 0, "%s is %s, and names %d tests", r.id, r.verdict, len(named))
		for _, n := range named {
			assert.True(t, tests[n[1]+"."+n[2]], "%s names %s.%s, which does not exist", r.id, n[1], n[2])
		}
	}
}

// ruleIDs returns the ids of the list, of which each line is one and a title.
func ruleIDs(t *testing.T) []string {
	text, err := os.ReadFile(filepath.Join("testdata", "unreal-ids.txt"))
	require.NoError(t, err)
	var ids []string
	for line := range strings.Lines(string(text)) {
		id, title, _ := strings.Cut(strings.TrimSpace(line), " ")
		require.Regexp(t, ruleID, id)
		require.NotEmpty(t, title, id)
		require.False(t, slices.Contains(ids, id), "%s stands twice", id)
		ids = append(ids, id)
	}
	require.NotEmpty(t, ids)
	return ids
}

// portingRules returns all rows of PORTING.md that begin with an id.
func portingRules(t *testing.T, root string) (rules []rule) {
	text, err := os.ReadFile(filepath.Join(root, "PORTING.md"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if id := strings.TrimSpace(cells[0]); strings.HasPrefix(line, "|") && ruleID.MatchString(id) {
			require.Len(t, cells, 4, "id, Unreal, Quiver, test: %s", line)
			v := verdict.FindStringSubmatch(strings.TrimSpace(cells[2]))
			require.NotNil(t, v, "%s is kept, **changed**: and how, or **absent**: and what to do instead: %s", id, cells[2])
			rules = append(rules, rule{id, cells[1], v[1] + v[3], v[2] + v[4], cells[3]})
		}
	}
	return rules
}
