// Peer runs the original's decaying histograms, one object each, on samples that bench/core.py
// hands over, and tells how much CPU time that took.
//
// It answers one line to each line of its input:
//
//	open COUNT MAXIMUM FIRST   makes the histograms      -> bytes of heap that each of them holds
//	tick FILE WEIGHT           one sample each, then     -> nanoseconds of CPU for the samples,
//	                           the percentiles of all       and for the percentiles
//	dump FILE                  writes what they hold     -> bytes written
//
// Files hold little-endian float64: for a tick all values, then all times in seconds since 1970; for
// a dump the total, the percentiles and the weight of each bucket, histogram by histogram.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/util"
)

const (
	ratio    = 1.05
	epsilon  = 0.0001
	halfLife = 24 * time.Hour
)

var fractions = [3]float64{0.5, 0.9, 0.95}

type bank struct {
	histograms  []util.Histogram
	values      []float64
	times       []time.Time
	percentiles [][3]float64
}

func main() {
	var b bank
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch fields[0] {
		case "open":
			fmt.Println(b.open(fields[1], fields[2], fields[3]))
		case "tick":
			intake, percentiles := b.tick(fields[1], fields[2])
			fmt.Println(intake, percentiles)
		case "dump":
			fmt.Println(b.dump(fields[1]))
		default:
			fail(fmt.Errorf("unknown command %q", fields[0]))
		}
	}
}

func (b *bank) open(count, maximum, first string) float64 {
	var n int
	var most, least float64
	_, err := fmt.Sscan(count+" "+maximum+" "+first, &n, &most, &least)
	fail(err)
	options, err := util.NewExponentialHistogramOptions(most, least, ratio, epsilon)
	fail(err)
	*b = bank{
		values:      make([]float64, n),
		times:       make([]time.Time, n),
		percentiles: make([][3]float64, n),
		histograms:  make([]util.Histogram, n),
	}
	before := heap()
	for i := range b.histograms {
		b.histograms[i] = util.NewDecayingHistogram(options, halfLife)
	}
	return float64(heap()-before) / float64(n)
}

func (b *bank) tick(path, text string) (intake, percentiles int64) {
	weight, err := strconv.ParseFloat(text, 64)
	fail(err)
	b.read(path)
	start := spent()
	for i, h := range b.histograms {
		h.AddSample(b.values[i], weight, b.times[i])
	}
	middle := spent()
	for i, h := range b.histograms {
		for j, fraction := range fractions {
			b.percentiles[i][j] = h.Percentile(fraction)
		}
	}
	return middle - start, spent() - middle
}

func (b *bank) read(path string) {
	data, err := os.ReadFile(path)
	fail(err)
	n := len(b.values)
	for i := range n {
		b.values[i] = float(data, i)
		b.times[i] = time.Unix(int64(float(data, n+i)), 0)
	}
}

func (b *bank) dump(path string) int64 {
	file, err := os.Create(path)
	fail(err)
	out := bufio.NewWriterSize(file, 1<<20)
	for i, h := range b.histograms {
		inner := reflect.ValueOf(h).Elem().FieldByName("histogram")
		write(out, inner.FieldByName("totalWeight").Float())
		for _, percentile := range b.percentiles[i] {
			write(out, percentile)
		}
		weights := inner.FieldByName("bucketWeight")
		for bucket := range weights.Len() {
			write(out, weights.Index(bucket).Float())
		}
	}
	fail(out.Flush())
	size, err := file.Seek(0, 1)
	fail(err)
	fail(file.Close())
	return size
}

func float(data []byte, index int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(data[8*index:]))
}

func write(out *bufio.Writer, number float64) {
	var data [8]byte
	binary.LittleEndian.PutUint64(data[:], math.Float64bits(number))
	_, err := out.Write(data[:])
	fail(err)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func spent() int64 {
	var usage syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}
