// Package httpapi is the trigger service's HTTP door: signed webhooks, starts of
// agents and flows, schedules and deliveries. It turns requests into calls of
// the service and its answers into statuses; it decides nothing.
package httpapi
