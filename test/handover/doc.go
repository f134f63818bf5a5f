// Package handover proves that a store directory goes back and forth between the real Java broker and Skylark.
//
// A relay is a chain of lives: Java and Skylark brokers that are started one after the other on one directory, with
// small files so that every kind of file rolls. Each life first checks what the lives before it left, through the
// network and in the files, then writes more of everything, and ends by a clean stop or by kill -9, idle or under load.
//
//	go test -tags interop -v ./test/handover            everything, with Java 5.3.3 and 4.9.7
//	go test -tags interop -short -v ./test/handover     one relay with both ends
//
// The servers come from javaoracle (Maven fetches them once into INTEROP_WORK, test/interop/.work if that is empty), the
// binary from SKYLARK (bin/skylark; built when missing). Java 17 or newer and mvn have to be there.
//
// What is compared, with the file that does it:
//
//	snapshot_test.go   every queue's offsets and the bytes of every record, by pull
//	check_test.go      queries by key, unique key, id and time, consumer offsets, topics, groups, delayed messages
//	files_test.go      ConsumeQueue, index and checkpoint files: live against rebuilt, Java's against Skylark's
//	queues_test.go     batch queues and light queues: messages, offsets, files, and what each broker rebuilds
//	filters_test.go    SQL92 subscriptions and filter bits: what groups get, and the bytes of every unit
//	logs_test.go       which recovery was taken, and that neither side complained
package handover
