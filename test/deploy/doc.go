// Package deploy holds the deployments to what the product promises: that
// docker-compose.yml loads, that the Kubernetes base builds, and that every
// workload is confined and given time to drain. That their command lines are
// right is a test of cmd/holdfast.
package deploy
