package javaoracle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// fetching has tests that run at the same time wait for one run of Maven.
var fetching sync.Mutex

// Jars returns the directory with the server jars of a version. It lets Maven fetch them when they are not in
// cacheDir.
func Jars(ctx context.Context, cacheDir, version string) (string, error) {
	return fetch(ctx, filepath.Join(cacheDir, "java-server-"+version), version, "rocketmq-namesrv", "rocketmq-broker")
}

// ProxyJars is Jars for the proxy, which wants other versions of what servers share.
func ProxyJars(ctx context.Context, cacheDir, version string) (string, error) {
	return fetch(ctx, filepath.Join(cacheDir, "java-proxy-"+version), version, "rocketmq-proxy")
}

// fetch has the jars of some artifacts in dir/lib.
func fetch(ctx context.Context, dir, version string, artifacts ...string) (string, error) {
	fetching.Lock()
	defer fetching.Unlock()
	lib, done := filepath.Join(dir, "lib"), filepath.Join(dir, ".done")
	if _, err := os.Stat(done); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	pom := filepath.Join(dir, "pom.xml")
	var list strings.Builder
	for _, name := range artifacts {
		fmt.Fprintf(&list, dependency, name, version)
	}
	text := fmt.Sprintf(serverPOM, list.String())
	if err := os.WriteFile(pom, []byte(text), 0o644); err != nil {
		return "", err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+lib)
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("javaoracle: mvn for %s: %w\n%s", version, err, out)
	}
	return lib, os.WriteFile(done, nil, 0o644)
}

const serverPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>skylark</groupId>
  <artifactId>java-server</artifactId>
  <version>1</version>
  <dependencies>
%s  </dependencies>
</project>
`

const dependency = `    <dependency>
      <groupId>org.apache.rocketmq</groupId>
      <artifactId>%s</artifactId>
      <version>%s</version>
    </dependency>
`
