package report

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/quivernet/quiver/bench/peer/enet"
)

// Machine is where it ran.
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

// found returns the first match in a file; empty where there is no such file.
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

// revision is what git says: go run stamps none.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// version returns a module's; of what has none, the toolchain's.
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
