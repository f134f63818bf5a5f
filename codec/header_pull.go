package codec

// PullMessageHeader is the header of PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). Slices alias the frame,
// or memory of the header's own where the frame had escapes, and live until the next Decode. Decoding does
// not allocate.
type PullMessageHeader struct {
	ConsumerGroup        []byte
	Topic                []byte
	QueueID              int32
	QueueOffset          QueueOffset
	MaxMsgNums           int32
	SysFlag              int32 // PullFlag… bits
	CommitOffset         QueueOffset
	SuspendTimeoutMillis int64
	Subscription         []byte // nil when absent
	SubVersion           int64
	ExpressionType       []byte // nil when absent, which means TAG
	MaxMsgBytes          int32  // 0 when absent
	RequestSource        int32  // RequestSourceSDK when absent
	ProxyForwardClientID []byte
	BrokerName           []byte
	Physical             bool // "lo" is false: QueueID is not one of a static topic

	scratch []byte // unescaped values
}

// Values of PullMessageHeader.RequestSource (Java RequestSource).
const (
	RequestSourceSDK            = -1
	RequestSourceProxyOrder     = 0
	RequestSourceProxyBroadcast = 1
	RequestSourceProxyStream    = 2
)

// The required fields of a pull header; the bit is set when the field was seen.
const (
	pullConsumerGroup = 1 << iota
	pullTopic
	pullQueueID
	pullQueueOffset
	pullMaxMsgNums
	pullSysFlag
	pullCommitOffset
	pullSuspendTimeoutMillis
	pullSubVersion
)

var pullFieldNames = [...]string{"consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag",
	"commitOffset", "suspendTimeoutMillis", "subVersion"}

// Decode reads c's fields. The error is a *HeaderError: a field that cannot be read, or the first required
// one that is missing.
func (h *PullMessageHeader) Decode(c *Command) error {
	*h = PullMessageHeader{RequestSource: RequestSourceSDK, scratch: h.scratch[:0]}
	seen := 0
	for i := range c.Fields {
		f := &c.Fields[i]
		bit, want := h.set(f)
		if want != "" {
			return &HeaderError{Field: string(f.Key), Value: f.Text(), Want: want}
		}
		seen |= bit
	}
	for i, name := range pullFieldNames {
		if seen&(1<<i) == 0 {
			return &HeaderError{Field: name, Want: "required"}
		}
	}
	return nil
}

// set stores one field and returns its bit, and what was wanted if the value cannot be read.
func (h *PullMessageHeader) set(f *Field) (bit int, want string) {
	switch string(f.Key) {
	case "consumerGroup":
		h.ConsumerGroup = f.text(&h.scratch)
		return pullConsumerGroup, ""
	case "topic":
		h.Topic = f.text(&h.scratch)
		return pullTopic, ""
	case "queueId":
		return pullQueueID, f.int32Into(&h.QueueID)
	case "queueOffset":
		return pullQueueOffset, f.int64Into((*int64)(&h.QueueOffset))
	case "maxMsgNums":
		return pullMaxMsgNums, f.int32Into(&h.MaxMsgNums)
	case "sysFlag":
		return pullSysFlag, f.int32Into(&h.SysFlag)
	case "commitOffset":
		return pullCommitOffset, f.int64Into((*int64)(&h.CommitOffset))
	case "suspendTimeoutMillis":
		return pullSuspendTimeoutMillis, f.int64Into(&h.SuspendTimeoutMillis)
	case "subVersion":
		return pullSubVersion, f.int64Into(&h.SubVersion)
	}
	return 0, h.setOptional(f)
}

func (h *PullMessageHeader) setOptional(f *Field) (want string) {
	switch string(f.Key) {
	case "subscription":
		h.Subscription = f.text(&h.scratch)
	case "expressionType":
		h.ExpressionType = f.text(&h.scratch)
	case "maxMsgBytes":
		return f.int32Into(&h.MaxMsgBytes)
	case "requestSource":
		return f.int32Into(&h.RequestSource)
	case "proxyFrowardClientId": // sic
		h.ProxyForwardClientID = f.text(&h.scratch)
	case ExtBrokerName:
		h.BrokerName = f.text(&h.scratch)
	case ExtLogical:
		h.Physical = !f.isTrue()
	}
	return ""
}

// Encode adds the header to c; for our own client.
func (h *PullMessageHeader) Encode(c *Command) {
	c.Set("consumerGroup", string(h.ConsumerGroup))
	c.Set("topic", string(h.Topic))
	c.SetInt("queueId", int64(h.QueueID))
	c.SetInt("queueOffset", int64(h.QueueOffset))
	c.SetInt("maxMsgNums", int64(h.MaxMsgNums))
	c.SetInt("sysFlag", int64(h.SysFlag))
	c.SetInt("commitOffset", int64(h.CommitOffset))
	c.SetInt("suspendTimeoutMillis", h.SuspendTimeoutMillis)
	c.SetInt("subVersion", h.SubVersion)
	if h.Subscription != nil {
		c.Set("subscription", string(h.Subscription))
	}
	if h.ExpressionType != nil {
		c.Set("expressionType", string(h.ExpressionType))
	}
	if h.MaxMsgBytes != 0 {
		c.SetInt("maxMsgBytes", int64(h.MaxMsgBytes))
	}
	if h.RequestSource != RequestSourceSDK {
		c.SetInt("requestSource", int64(h.RequestSource))
	}
	if len(h.ProxyForwardClientID) > 0 {
		c.Set("proxyFrowardClientId", string(h.ProxyForwardClientID))
	}
	if len(h.BrokerName) > 0 {
		c.Set(ExtBrokerName, string(h.BrokerName))
	}
	if h.Physical {
		c.SetBool(ExtLogical, false)
	}
}

// Values of PullResponse.ForbiddenType (Java ForbiddenType), with RespNoPermission.
const (
	ForbiddenBroker           int32 = 1
	ForbiddenGroup            int32 = 2
	ForbiddenTopic            int32 = 3
	ForbiddenBroadcastDisable int32 = 4
	ForbiddenSubscription     int32 = 5
)

// PullResponse is the header of a pull answer. The four numbers are always written, with any code: Java
// clients fail on a missing one. Nil fields are left out.
type PullResponse struct {
	SuggestWhichBrokerID int64
	NextBeginOffset      QueueOffset
	MinOffset            QueueOffset
	MaxOffset            QueueOffset
	OffsetDelta          *int64 // of a static topic
	TopicSysFlag         *int32
	GroupSysFlag         *int32
	ForbiddenType        *int32
}

// AppendPullResponse appends the answer to a pull up to its body of bodyLen bytes, which follows from
// elsewhere. It allocates nothing if dst has room.
func AppendPullResponse(dst []byte, t SerializeType, opaque int32, code int, remark string, r *PullResponse,
	bodyLen int) []byte {
	w := beginResponse(dst, t, opaque, code, remark)
	w.number("suggestWhichBrokerId", r.SuggestWhichBrokerID)
	w.number("nextBeginOffset", int64(r.NextBeginOffset))
	w.number("minOffset", int64(r.MinOffset))
	w.number("maxOffset", int64(r.MaxOffset))
	if r.OffsetDelta != nil {
		w.number("offsetDelta", *r.OffsetDelta)
	}
	if r.TopicSysFlag != nil {
		w.number("topicSysFlag", int64(*r.TopicSysFlag))
	}
	if r.GroupSysFlag != nil {
		w.number("groupSysFlag", int64(*r.GroupSysFlag))
	}
	if r.ForbiddenType != nil {
		w.number("forbiddenType", int64(*r.ForbiddenType))
	}
	return w.finish(bodyLen)
}
