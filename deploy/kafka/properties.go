package kafka

import (
	"fmt"
	"strings"

	"turnout/deploy/internal/process"
)

func (b *Broker) properties() string {
	plain, controller := process.Loopback(b.options.Port), process.Loopback(b.controllerPort)
	listeners := "PLAINTEXT://" + plain
	protocols := "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
	var secure string
	if s := b.options.Security; s != nil {
		listeners += ",SASL_SSL://" + b.SecureAddr()
		protocols += ",SASL_SSL:SASL_SSL"
		secure = fmt.Sprintf(`sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location=%s
ssl.client.auth=none
`, s.Username, s.Password, s.KeyStoreFile)
	}
	// A killed broker stays fenced, its port closed, until its old session ends: twelve seconds by
	// default. Much shorter than this, and a broker on a busy machine is fenced though it lives.
	return strings.TrimLeft(fmt.Sprintf(`
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[1]s
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=%[2]s,CONTROLLER://%[1]s
advertised.listeners=%[2]s
listener.security.protocol.map=%[3]s
log.dirs=%[4]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
default.replication.factor=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
`, controller, listeners, protocols, b.path("data")), "\n") + secure
}
