package codec

import "fmt"

// MQVersion ordinals that change behaviour (spec wire.md §4).
const (
	Version307Snapshot = 28  // V3_0_7_SNAPSHOT: clients below have no RESET_CONSUMER_CLIENT_OFFSET
	Version3011        = 37  // V3_0_11: register body is a RegisterBrokerBody from here
	Version318Snapshot = 62  // V3_1_8_SNAPSHOT: clients below get no 307 and 309
	Version349         = 121 // V3_4_9: maxReconsumeTimes of the request counts from here
	Version410Snapshot = 232 // V4_1_0_SNAPSHOT: SQL92 filters
	Version493         = 399 // V4_9_3: signatures up to here leave _UNIQUE_KEY_QUERY out
	Version494         = 401 // V4_9_4: route data as standard JSON from here
	Version498         = 409 // V4_9_8
	Version500         = 413 // V5_0_0: compressed register body has the queue mapping from here
	Version531         = 475 // V5_3_1: GO_AWAY only above
	Version533         = AnnouncedVersion
)

// versionRun is a row of Java's MQVersion enum: the releases major.minor.first to major.minor.last, each
// preceded by its snapshot.
type versionRun struct{ major, minor, first, last int }

// earlyVersions are the 16 names before the releases come in pairs.
var earlyVersions = [...]string{"V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2",
	"V3_0_0_BETA3",
	"V3_0_0_BETA4", "V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6", "V3_0_0_BETA7_SNAPSHOT",
	"V3_0_0_BETA7",
	"V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8", "V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL"}

// versionRuns is the rest of the enum in order.
var versionRuns = [...]versionRun{{3, 0, 1, 15}, {3, 1, 0, 9}, {3, 2, 0, 9}, {3, 3, 1, 9}, {3, 4, 1, 9}, {3,
	5, 1, 9},
	{3, 6, 1, 9}, {3, 7, 1, 9}, {3, 8, 1, 9}, {3, 9, 1, 9}, {4, 0, 0, 9}, {4, 1, 0, 9}, {4, 2, 0, 9}, {4, 3, 0,
		9},
	{4, 4, 0, 9}, {4, 5, 0, 9}, {4, 6, 0, 9}, {4, 7, 0, 9}, {4, 8, 0, 9}, {4, 9, 0, 9}, {5, 0, 0, 9}, {5, 1, 0,
		9},
	{5, 2, 0, 9}, {5, 3, 0, 9}, {5, 4, 0, 9}, {5, 5, 0, 9}, {5, 6, 0, 9}, {5, 7, 0, 9}, {5, 8, 0, 9}, {5, 9, 0,
		9}}

// VersionName is Java's name of an MQVersion ordinal, such as "V5_3_3"; "HIGHER_VERSION" for what the enum
// does not have (Java MQVersion.getVersionDesc).
func VersionName(ordinal int) string {
	if ordinal < 0 {
		return "HIGHER_VERSION"
	}
	if ordinal < len(earlyVersions) {
		return earlyVersions[ordinal]
	}
	n := ordinal - len(earlyVersions)
	for _, run := range versionRuns {
		if size := 2 * (run.last - run.first + 1); n >= size {
			n -= size
			continue
		}
		name := fmt.Sprintf("V%d_%d_%d", run.major, run.minor, run.first+n/2)
		if n%2 == 0 {
			name += "_SNAPSHOT"
		}
		return name
	}
	return "HIGHER_VERSION"
}
