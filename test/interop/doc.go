// Package interop runs real RocketMQ clients against Skylark and scores what they see.
//
// The clients are black boxes: small programs that use the published client libraries and know nothing of
// this repository. Each prints "PLAN client scenario" for what it is going to do and then one line "PASS|FAIL
// client scenario detail" for each scenario; the tests turn these lines into subtests.
//
//	java-5.3, java-5.3-binary   org.apache.rocketmq:rocketmq-client 5.3.3; the second with binary headers
//	java-4.9                    rocketmq-client 4.9.8
//	go-remoting                 github.com/apache/rocketmq-client-go/v2
//	mqadmin-5.3, mqadmin-4.9    the commands of rocketmq-tools; only with -set all
//	java-grpc                   rocketmq-client-java 5.0.8, through Apache's proxy 5.3.3 in cluster mode (TestProxy)
//
// Everything is under the build tag interop, since it needs java (17 or newer), mvn and the package
// registries:
//
//	test/interop/run [-short] [-clients java-5.3,...] [-only REGEXP] [-set core|all]     builds and runs
//	go test -tags interop -v ./test/interop                                              the same
//
// Without a name server address a Skylark is started from the binary in SKYLARK (bin/skylark if that is
// empty; built when missing). -namesrv host:port takes a running system instead, -target java the real Java
// 5.3.3. Builds and logs are kept in INTEROP_WORK (test/interop/.work).
//
// sets_test.go says which scenarios are asked for: short for every push, core for what Skylark promises, all
// for everything the programs know. known_test.go lists what the clients themselves get wrong.
package interop
