package filter

import "encoding/json"

// ConsumerFilterData is one group's SQL92 subscription to one topic, as consumerFilter.json keeps it
// under filterDataByTopic.<topic>.groupFilterData.<group> (Java: ConsumerFilterData). Its table and file
// are the broker's. Times are milliseconds since 1970. It is not safe for concurrent change.
type ConsumerFilterData struct {
	// BloomFilterData is nil in entries that some Java versions wrote; such a consumer gets no help from
	// bit maps.
	BloomFilterData *BloomFilterData `json:"bloomFilterData,omitempty"`
	BornTime        int64            `json:"bornTime"`
	ClientVersion   int64            `json:"clientVersion"` // subVersion of the subscription
	ConsumerGroup   string           `json:"consumerGroup"`
	DeadTime        int64            `json:"deadTime"` // 0 while alive
	Expression      string           `json:"expression"`
	ExpressionType  string           `json:"expressionType"`
	Topic           string           `json:"topic"`

	// SQL is Expression compiled; nil if it does not compile, and then every message matches.
	SQL *SQL `json:"-"`
}

// Dead says whether the group gave this subscription up.
func (d *ConsumerFilterData) Dead() bool { return d.DeadTime >= d.BornTime }

// InLive says whether a message stored at that time can have a bit map that knows this consumer (Java:
// isMsgInLive).
func (d *ConsumerFilterData) InLive(storeTimestamp int64) bool { return storeTimestamp > d.BornTime }

// MayMatch is the test before the message is read, with what a ConsumeQueueExt unit holds: false only if
// the bit map, made by bloom when the message was stored, says that the condition does not fit. bitMap is
// nil if there is no unit or no map in it. Java: ExpressionMessageFilter.isMatchedByConsumeQueue.
func (d *ConsumerFilterData) MayMatch(bloom *BloomFilter, storeTimestamp int64, bitMap Bits) bool {
	if d.SQL == nil || d.BloomFilterData == nil || bloom == nil || len(bitMap) == 0 ||
		!d.InLive(storeTimestamp) || bitMap.Len() != d.BloomFilterData.BitNum {
		return true
	}
	hit, err := bloom.IsHit(d.BloomFilterData, bitMap)
	return hit || err != nil
}

// MarshalJSON adds "dead", which Java writes and never reads, at its place among the sorted keys.
func (d *ConsumerFilterData) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		BloomFilterData *BloomFilterData `json:"bloomFilterData,omitempty"`
		BornTime        int64            `json:"bornTime"`
		ClientVersion   int64            `json:"clientVersion"`
		ConsumerGroup   string           `json:"consumerGroup"`
		Dead            bool             `json:"dead"`
		DeadTime        int64            `json:"deadTime"`
		Expression      string           `json:"expression"`
		ExpressionType  string           `json:"expressionType"`
		Topic           string           `json:"topic"`
	}{d.BloomFilterData, d.BornTime, d.ClientVersion, d.ConsumerGroup, d.Dead(), d.DeadTime, d.Expression,
		d.ExpressionType, d.Topic})
}
