// Package postgres keeps the trigger service's rows: deliveries, the hands of
// schedules, fires and rejected messages. It is the only package that knows the
// schema trigger.
package postgres
