package bunch

import "fmt"

var codeNames = [...]string{
	"NoError", "ReliableBufferOverflow", "MaxReliableExceeded", "PartialTooLarge", "PartialMergeReliableDestroy",
	"PartialInitialReliableDestroy", "BunchBadChannelIndex", "BunchDataOverflow", "ReadHeaderFail",
	"AckSequenceMismatch", "AlreadyOpen", "ReliableBeforeOpen", "ReceiveLimitExceeded", "ConnectionTimeout",
}

// String returns the name of the code.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", uint16(c))
}

func violation(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: fmt.Sprintf(format, args...)}
}
