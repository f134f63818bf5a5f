package main

import (
	"bytes"
	"regexp"
	"strings"
)

// variant tells apart frames of one code that a codec has to treat differently; "" is the ordinary form.
func variant(s sample) string {
	c := s.cmd
	if c.isResponse() {
		return responseVariant(s)
	}
	var v []string
	on := func(cond bool, name string) {
		if cond {
			v = append(v, name)
		}
	}
	switch s.reqCode {
	case 105:
		on(c.ext["acceptStandardJsonOnly"] == "true", "standard-json")
	case 10, 310, 324, 325:
		props := c.ext["properties"] + c.ext["i"]
		on(strings.Contains(props, "TRAN_MSG\x01true"), "half")
		on(strings.Contains(props, "DELAY\x01"), "delay")
		on(strings.Contains(props, "TIMER_"), "timer")
		on(c.isOneway(), "oneway")
		on(len(c.body) == 0, "no-body")
		on(strings.HasPrefix(c.ext["b"]+c.ext["topic"], "%RETRY%"), "retry")
		sysFlag := c.ext["f"] + c.ext["sysFlag"]
		on(sysFlag != "0" && !strings.Contains(props, "TRAN_MSG"), "sysflag-"+sysFlag)
	case 11, 361:
		on(true, "sysflag-"+c.ext["sysFlag"])
		on(c.ext["expressionType"] == "SQL92", "sql92")
	case 34:
		on(bytes.Contains(c.body, []byte(`"consumeType"`)), "consumer")
		on(bytes.Contains(c.body, []byte(`"producerDataSet":[{`)), "producer")
		on(bytes.Contains(c.body, []byte(`"withoutSub":true`)), "without-sub")
	case 37:
		on(true, c.ext["commitOrRollback"])
		on(c.ext["fromTransactionCheck"] == "true", "from-check")
	case 15, 42:
		on(c.isOneway(), "oneway")
	case 12:
		on(c.ext["_UNIQUE_KEY_QUERY"] == "true", "unique")
	case 35:
		on(c.ext["consumerGroup"] != "", "consumer")
		on(c.ext["producerGroup"] != "", "producer")
	case 103:
		on(bytes.HasPrefix(c.body, []byte{0x78}), "compressed")
		on(bytes.Count(c.body, []byte(`"topicName"`)) == 1, "one-topic")
	}
	return strings.Join(v, "-")
}

func responseVariant(s sample) string {
	switch s.reqCode {
	case 105:
		if len(s.cmd.body) > 0 && bytes.Contains(s.cmd.body, []byte(`brokerAddrs":{0:`)) {
			return "legacy-json"
		}
	case 322:
		return "changed-" + s.cmd.ext["changed"]
	case 307, 309:
		return ""
	}
	return ""
}

// sizeLimit lets the few answers through that are large by nature.
func sizeLimit(s sample) int {
	switch s.reqCode {
	case 103, 21, 201, 206, 26, 28, 307, 319, 43:
		return 24 << 10
	}
	return maxGolden
}

// topicScenario finds the scenario in a topic name of the interop clients: T_<client>_<scenario>_<run>.
var topicScenario = regexp.MustCompile(`^T_[a-zA-Z0-9_-]*?_([a-z0-9-]+)_[a-z0-9]+(?:_\d+)?$`)

// recordScenarios are those whose stored messages show something of their own.
var recordScenarios = map[string]bool{
	"send-sync": true, "send-batch": true, "batch-cq": true, "compress-zlib": true, "compress-lz4": true,
	"compress-zstd": true, "properties": true, "unicode": true, "delay-level": true, "tx-commit": true,
	"retry": true, "timer-exact": true, "empty-body": true, "ipv6": true, "auto-batch": true,
	"filter-tag": true,
}

func recordName(r record) string {
	topic := r.topic
	for _, p := range splitProperties(r.properties) {
		if p[0] == "RETRY_TOPIC" {
			topic = p[1]
		}
	}
	m := topicScenario.FindStringSubmatch(topic)
	if m == nil || !recordScenarios[m[1]] {
		return ""
	}
	name := m[1]
	if r.sysFlag&0x30 != 0 {
		name += "-ipv6"
	}
	if topic != r.topic {
		name += "-again"
	}
	return name
}
