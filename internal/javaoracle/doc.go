// Package javaoracle runs the real RocketMQ name server and broker, so that golden files can be captured from
// them and the same black-box tests can be pointed at them.
//
// The servers are started from their Maven artifacts (org.apache.rocketmq:rocketmq-namesrv and
// rocketmq-broker), which Maven resolves and copies once for each version into a cache directory. Nothing of
// them is kept in this repository but the captures: codec/testdata/wire, codec/testdata/records and
// store/testdata.
//
// How the golden files were made is in capture.sh (wire frames and stored records) and makestore.sh (store
// directories); both need java, mvn and go, and no running broker.
//
// Only tests and the commands below this directory use the package.
package javaoracle
