package report

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/bench/peer/enet"
)

// A Machine is the machine on which the bench ran.
type Machine struct {
	OS, Arch    string
	CPU, Kernel string `json:",omitempty"`
	Cores       int
	MemoryBytes int64 `json:",omitempty"`
	Go          string
}

func thisMachine() Machine {
	return Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: found("/proc/cpuinfo", `model name\s*: (.*)`), Cores: runtime.NumCPU(),
		Kernel: found("/proc/sys/kernel/osrelease", `(.*)`), MemoryBytes: memory(), Go: runtime.Version(),
	}
}

// found returns the first match of a pattern in a file, or "" if there is none.
func found(path, pattern string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(string(m[1]))
}

func memory() int64 {
	kib, err := strconv.ParseInt(found("/proc/meminfo", `MemTotal:\s*(\d+) kB`), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// revision returns the revision of the program. It comes from the linker's stamp or, because go run
// and go build with -buildvcs=false don't add one, from git. It is "" if neither is known.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if stamp := stamped(info.Settings); stamp != "" {
			return stamp
		}
	}
	_, file, _, _ := runtime.Caller(0)
	return described(file)
}

// stamped returns the revision in a program's build settings, or "" if there is none.
func stamped(settings []debug.BuildSetting) (revision string) {
	dirty := ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), revisionDigits)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}

const revisionDigits = 12

// described returns git's description of the revision of a tracked file, in whatever folder the
// program runs, or "" if git doesn't know the file.
func described(file string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", filepath.Dir(file)}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := git("ls-files", "--error-unmatch", filepath.Base(file)); err != nil {
		return ""
	}
	name, err := git("describe", "--always", "--dirty", fmt.Sprintf("--abbrev=%d", revisionDigits))
	if err != nil {
		return ""
	}
	return name
}

// named returns a revision as words.
func named(revision string) string { return "revision " + cmp.Or(revision, "unknown") }

// version returns the version of a module that the program uses, or "" if it is unknown.
func version(module string) string {
	if module == "libenet" {
		return enet.Version()
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || module == "" {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

func (m Machine) String() string {
	s := fmt.Sprintf("%d cores", m.Cores)
	if m.CPU != "" {
		s += " of " + m.CPU
	}
	if m.MemoryBytes > 0 {
		s += fmt.Sprintf(", %.0f GiB", float64(m.MemoryBytes)/(1<<30))
	}
	s += fmt.Sprintf(", %s/%s", m.OS, m.Arch)
	if m.Kernel != "" {
		s += ", kernel " + m.Kernel
	}
	return s + ", " + m.Go
}
