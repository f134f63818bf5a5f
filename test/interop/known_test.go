//go:build interop

package interop

// knownFailures are scenarios that fail against Java 5.3.3, by the client's own fault. There a failure is reported and
// skipped; Skylark has to pass them.
var knownFailures = map[string]string{
	"go-remoting/filter-tag-unicode": "the client hashes the UTF-8 bytes of a tag, brokers its UTF-16 units",
	"mqadmin-4.9/clusterList":        "reads the runtime key getTransferedTps, which 5.x spells right",
	"mqadmin-4.9/exportMetrics":      "reads the runtime key getTransferedTps, which 5.x spells right",
	"mqadmin-4.9/exportConfigs":      "reads the setting filterServerNums, which 5.x has no more",
}

// knownFailure tells why a scenario need not pass, "" if it has to.
func knownFailure(clientName, scenario string) string {
	if *flagTarget != "java" {
		return ""
	}
	return knownFailures[clientName+"/"+scenario]
}
