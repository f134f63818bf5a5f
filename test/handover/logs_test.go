//go:build interop

package handover

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logFile is a log and where this life's lines begin.
type logFile struct {
	path string
	from int64
}

func openLog(path string) logFile {
	l := logFile{path: path}
	if info, err := os.Stat(path); err == nil {
		l.from = info.Size()
	}
	return l
}

func (l logFile) lines() []string {
	text, err := os.ReadFile(l.path)
	if err != nil || int64(len(text)) < l.from {
		return nil
	}
	return strings.Split(string(text[l.from:]), "\n")
}

// logback49 makes a 4.9 broker log where 5.x does; its own configuration is not in the jars.
const logback49 = `<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/logs/rocketmqlogs/store.log</file>
    <encoder><pattern>%d{yyy-MM-dd HH:mm:ss} %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
`

// complaint finds lines of a level that needs an explanation.
var complaint = regexp.MustCompile(`^\S+ \S+ (WARN|ERROR) |level=(WARN|ERROR)`)

// harmless are warnings and errors that Java logs on its own stores, too: at every start and stop, when an index file
// is full, for a topic that is made before the broker is registered, for every search by time.
var harmless = regexp.MustCompile(`No resource file with name|Load default |Unknown channel option|` +
	`The commitlog files are deleted|by shutdown|may caused by shutdown|has shutdown|` +
	`(Over index file capacity|Index file \[).*(400|is full)|Failed to register current broker|registerBroker Exception|Unknown boundary type|` +
	`create mappedFile spent time|ScheduleMessageService (put message failed|onException)|` +
	`found a illegal magic code 0x0|Get message from store return null|check msgOffset=\d+ with opOffset=\d+ failed|` +
	`#putMessage cost \d+ms|Offset not matched\. Request offset: (\d+), firstOffset: \d+, lastOffset: (\d+)|` +
	`delete topic queue mapping failed|end transaction in sending message|TransactionalMessageCheckService - Check error|` +
	`level=WARN msg="(not registered|slow request)"`)

// truncated is Java's warning that entries point behind the log. It appears after every clean stop, for it compares
// with >=: only different numbers mean anything.
var truncated = regexp.MustCompile(`maxPhyOffsetOfConsumeQueue\((\d+)\) >= processOffset\((\d+)\)`)

// afterCrash are complaints that a recovery after kill -9 may make: half a record at the end, an index file that was
// being filled.
var afterCrash = regexp.MustCompile(`half message|illegal magic code|CRC check failed|commit log cut|recovery cut a file|` +
	`removed bytes are kept|index file removed|maxPhyOffsetOfConsumeQueue|checkMessageAndReturnSize failed|` +
	`delay offset is outside|truncate|Maybe try to build consume queue repeatedly`)

// requireQuiet checks that the life complained of nothing that was not to be expected.
func (l *life) requireQuiet(t *testing.T, afterKill bool) {
	t.Helper()
	var lines []string
	for _, file := range l.logs {
		for _, line := range file.lines() {
			if !complaint.MatchString(line) || harmless.MatchString(line) || afterKill && afterCrash.MatchString(line) {
				continue
			}
			if l.expected != "" && strings.Contains(line, l.expected) {
				continue
			}
			if m := truncated.FindStringSubmatch(line); m != nil && m[1] == m[2] {
				continue
			}
			lines = append(lines, line)
		}
	}
	require.Empty(t, lines, "%s: complaints", l)
}

// logged tells whether a line of this life matches.
func (l *life) logged(expression string) bool {
	e := regexp.MustCompile(expression)
	for _, file := range l.logs {
		for _, line := range file.lines() {
			if e.MatchString(line) {
				return true
			}
		}
	}
	return false
}

// requireRecovery checks which recovery the life took: clean or not.
func (l *life) requireRecovery(t *testing.T, clean bool) {
	t.Helper()
	switch {
	case l.java() && clean:
		require.True(t, l.logged("last shutdown normally"), "%s did not take the normal recovery", l)
	case l.java():
		require.True(t, l.logged("last shutdown abnormally"), "%s did not take the abnormal recovery", l)
	case clean:
		require.True(t, l.logged("store recovered.*clean=true"), "%s did not take the normal recovery", l)
	default:
		require.True(t, l.logged("store recovered.*clean=false"), "%s did not take the abnormal recovery", l)
	}
}
