// Package suite runs a table of workloads against several brokers side by side and compares them: Skylark and Java, two
// builds, two configurations. The command is `skylark bench suite`.
//
// # What is comparable
//
// Rounds interleave: in each round every workload's target take turns, beginning with another one each time, so that
// what the machine does meanwhile hits all alike. The median over the rounds counts; the report keeps every round's
// value. Before the first round each target gets a quarter of the load that is not counted: compilers warm up, files
// are made. While one target is under load the others only idle.
//
// Throughput depends on what else the machine does, and on this process, which takes its share of the same cores. The
// CPU time of the broker's process for a message does not: it is the figure to trust on a busy machine. It is known
// for brokers on this machine whose process this user may look at.
//
// A ratio compares the first target with each other one and is above 1 where the first is better, whatever the figure.
//
// # What is left behind
//
// Workloads use topics and groups whose names begin with SkylarkSuite and leave them, with their messages, to a broker
// that was there before; brokers of --start keep their files in a temporary directory that goes with them.
package suite
