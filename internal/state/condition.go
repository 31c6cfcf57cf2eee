package state

// A Condition says which connections receive a field, and when. UE: ELifetimeCondition.
type Condition uint8

const (
	None      Condition = iota // all connections for which the actor is open. UE: COND_None
	Owner                      // only the connection that owns the actor. UE: COND_OwnerOnly
	SkipOwner                  // all but the owner. UE: COND_SkipOwner
	Initial                    // all, but only with the message that opens the actor. UE: COND_InitialOnly
	Custom                     // all, while the game has switched it on. UE: COND_Custom
)

// conditionNames holds the conditions as written in a tag.
var conditionNames = [...]string{None: "none", Owner: "owner", SkipOwner: "skipowner", Initial: "initial", Custom: "if"}

// String returns the condition as written in a tag.
func (c Condition) String() string {
	if int(c) < len(conditionNames) {
		return conditionNames[c]
	}
	return "unknown"
}
