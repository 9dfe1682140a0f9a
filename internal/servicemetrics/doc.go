// Package servicemetrics provides service metrics: the number of groups by state across all services, and series by namespace, Microservice
// and group for a limited number of services. The metrics are computed from the manager's cache at each scrape. Nothing is written.
//
// collector.go  the collector, which reads the cache and limits the number of series
// series.go     the metrics, and the series of a scrape
// progress.go   counters that persist across scrapes: deployments, failures, restores, waits (without a clock or a client)
package servicemetrics
