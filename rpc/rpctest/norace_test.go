//go:build !race

package rpctest_test

const raceDetector = false
