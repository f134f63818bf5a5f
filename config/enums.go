package config

import "strconv"

// choices is implemented by string types with a closed list of values.
type choices interface {
	choices() []string
}

// BrokerRole says how a broker takes part in replication (Java BrokerRole). Values are Java's names.
type BrokerRole string

// The roles. AsyncMaster does not wait for slaves, SyncMaster does.
const (
	AsyncMaster BrokerRole = "ASYNC_MASTER"
	SyncMaster  BrokerRole = "SYNC_MASTER"
	Slave       BrokerRole = "SLAVE"
)

func (BrokerRole) choices() []string {
	return []string{string(AsyncMaster), string(SyncMaster), string(Slave)}
}

// FlushDiskType says whether a send waits for the disk (Java FlushDiskType).
type FlushDiskType string

// The two kinds of flushing.
const (
	SyncFlush  FlushDiskType = "SYNC_FLUSH"
	AsyncFlush FlushDiskType = "ASYNC_FLUSH"
)

func (FlushDiskType) choices() []string { return []string{string(SyncFlush), string(AsyncFlush)} }

// MessageRequestMode is how a group fetches messages (Java MessageRequestMode).
type MessageRequestMode string

// The modes.
const (
	ModePull MessageRequestMode = "PULL"
	ModePop  MessageRequestMode = "POP"
)

func (MessageRequestMode) choices() []string { return []string{string(ModePull), string(ModePop)} }

// MetricsExporterType is the way metrics leave (Java MetricsExporterType). Files may hold Java's numbers too.
type MetricsExporterType string

// The ways, in the order of Java's numbers 0 to 3.
const (
	MetricsDisable  MetricsExporterType = "DISABLE"
	MetricsOTLPGRPC MetricsExporterType = "OTLP_GRPC"
	MetricsProm     MetricsExporterType = "PROM"
	MetricsLog      MetricsExporterType = "LOG"
)

func (MetricsExporterType) choices() []string {
	return []string{string(MetricsDisable), string(MetricsOTLPGRPC), string(MetricsProm), string(MetricsLog)}
}

// byOrdinal turns a number into its name for the types that Java lets be given by number.
func (MetricsExporterType) byOrdinal(text string) (string, bool) {
	all := MetricsDisable.choices()
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= len(all) {
		return "", false
	}
	return all[n], true
}
