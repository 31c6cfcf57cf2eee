package state

// Condition says who gets a field, and when. UE: ELifetimeCondition.
type Condition uint8

const (
	None      Condition = iota // all connections that have the actor open. UE: COND_None
	Owner                      // the connection that owns the actor. UE: COND_OwnerOnly
	SkipOwner                  // all but that one. UE: COND_SkipOwner
	Initial                    // all, with the open only. UE: COND_InitialOnly
	Custom                     // all, while the game has it on. UE: COND_Custom
)

// words are what stands in a tag.
var words = [...]string{None: "none", Owner: "owner", SkipOwner: "skipowner", Initial: "initial", Custom: "if"}

// String returns the word that stands in a tag.
func (c Condition) String() string {
	if int(c) < len(words) {
		return words[c]
	}
	return "unknown"
}
