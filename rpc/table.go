package rpc

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quivernet/quiver/internal/shape"
)

// classTable has the classes that a world knows. The first connection freezes it: from then on it is sorted by name, so that the order of
// declaration does not matter, and an index is the class id on the wire. The lock guards all until then; afterwards nothing changes, and
// all is read freely.
type classTable struct {
	mu      sync.Mutex
	classes []*Class
	frozen  bool
	ids     map[*Class]int // once frozen
	shape   shape.Shape    // likewise: what the handshake compares
	hash    [32]byte       // likewise: of shape
}

// add enters a class; to add it again does nothing.
func (t *classTable) add(class *Class) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.classes, class) {
		return nil
	}
	for _, other := range t.classes {
		if other.name == class.name {
			return fmt.Errorf("rpc: two classes are named %q", class.name)
		}
	}
	if t.frozen {
		return fmt.Errorf("rpc: class %q is added after the first connection; Bind it or name it in Config.Classes before", class.name)
	}
	if class.actor != nil {
		return fmt.Errorf("rpc: Config.Classes names %q, a component: name class %q", class.name, class.actor.name)
	}
	class.close()
	t.classes = append(t.classes, class)
	return nil
}

// freeze fixes the table.
func (t *classTable) freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return
	}
	t.classes = slices.SortedFunc(slices.Values(t.classes), func(a, b *Class) int { return strings.Compare(a.name, b.name) })
	t.ids = make(map[*Class]int, len(t.classes))
	for id, class := range t.classes {
		t.ids[class] = id
	}
	t.shape = shapeOf(t.classes)
	t.hash = t.shape.Hash()
	t.frozen = true
}

// all returns the classes, by class id once the table is frozen.
func (t *classTable) all() []*Class {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.classes
}

// id returns what names a class on the wire; before the table is frozen the greatest that it may become.
func (t *classTable) id(class *Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return t.ids[class]
	}
	return len(t.classes)
}
