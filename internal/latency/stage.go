package latency

// Stage is what a request spends its time with. A request is in one at a time.
type Stage uint8

// Stages in the order a request passes them. Dispatch is nobody's wait: it is the time from a put to its ConsumeQueue
// entry, observed by itself under class Send.
const (
	// Queue: in the queue of a business pool.
	Queue Stage = iota
	// Serve: decoding, checks, encoding of the answer, and whatever is no other stage.
	Serve
	// Lock: waiting for the put lock, or for the next CommitLog file.
	Lock
	// Append: encoding the record and copying it into the log, page faults included.
	Append
	// Flush: waiting for the group commit (SYNC_FLUSH).
	Flush
	// Read: finding messages in the store; reading them in when they are cold.
	Read
	// Write: handing the answer to the socket, or queueing it behind others.
	Write
	// Dispatch: from the put to the entry in the ConsumeQueue that lets consumers see it.
	Dispatch
	// NumStages is how many there are.
	NumStages
)

var stageNames = [NumStages]string{"queue", "serve", "lock", "append", "flush", "read", "write", "dispatch"}

// String is the name in logs, metrics and remarks.
func (s Stage) String() string {
	if s < NumStages {
		return stageNames[s]
	}
	return "unknown"
}

// Class is a kind of requests that are alike.
type Class uint8

// The classes.
const (
	// Other: everything that is not one of the following.
	Other Class = iota
	// Send: messages in.
	Send
	// Pull: messages out, answered without being parked.
	Pull
	// Wake: a parked pull, from the arrival of a message, or its deadline, to the answer.
	Wake
	// NumClasses is how many there are.
	NumClasses
)

var classNames = [NumClasses]string{"other", "send", "pull", "wake"}

// String is the name in logs, metrics and runtime info.
func (c Class) String() string {
	if c < NumClasses {
		return classNames[c]
	}
	return "unknown"
}
