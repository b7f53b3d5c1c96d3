package main

import (
	"log"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	mebibyte    = 1 << 20
	period      = 50 * time.Millisecond
	threadUsage = 1 // RUSAGE_THREAD, which package syscall does not name
	largestDebt = time.Second
)

// appetite is what a worker wants at the moment.
type appetite struct {
	Millicores int64
	MiB        int64
	Growth     int64 // MiB for each second
	GrowTo     int64 // MiB; 0 for no end
}

type worker struct {
	ready  atomic.Bool
	mutex  sync.Mutex
	wanted appetite
	blocks [][]byte
}

func newWorker(wanted appetite) *worker {
	it := &worker{}
	it.want(wanted)
	return it
}

func (it *worker) wants() appetite {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	return it.wanted
}

func (it *worker) holds() int {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	return len(it.blocks)
}

// want changes the appetite, and takes or gives back memory until it is what is wanted.
func (it *worker) want(wanted appetite) {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	it.wanted = wanted
	for int64(len(it.blocks)) < wanted.MiB {
		it.blocks = append(it.blocks, take())
	}
	for int64(len(it.blocks)) > max(wanted.MiB, 0) {
		last := len(it.blocks) - 1
		if err := syscall.Munmap(it.blocks[last]); err != nil {
			log.Fatal("munmap: ", err)
		}
		it.blocks = it.blocks[:last]
	}
}

// take is one MiB from outside Go's heap, so that the amount is exact, with every page touched.
func take() []byte {
	block, err := syscall.Mmap(-1, 0, mebibyte, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		log.Fatal("mmap: ", err)
	}
	for at := 0; at < mebibyte; at += syscall.Getpagesize() {
		block[at] = 1
	}
	return block
}

func (it *worker) free() {
	it.want(appetite{Millicores: it.wants().Millicores})
}

// grow adds memory once per MiB of growth, evenly over each second.
func (it *worker) grow() {
	for {
		wanted := it.wants()
		if wanted.Growth <= 0 || (wanted.GrowTo > 0 && wanted.MiB >= wanted.GrowTo) {
			time.Sleep(period)
			continue
		}
		time.Sleep(time.Second / time.Duration(wanted.Growth))
		wanted = it.wants()
		if wanted.Growth > 0 {
			wanted.MiB++
			it.want(wanted)
		}
	}
}

// burn is one of several threads: the first burns the first 1000 millicores, the second the next, and so on.
//
// It counts CPU time, and makes up for what a busy machine or a limit withheld, by a second's worth at most.
func (it *worker) burn(core int64) {
	runtime.LockOSThread()
	owed, then, used := time.Duration(0), time.Now(), threadTime()
	for {
		share := min(max(it.wants().Millicores-1000*core, 0), 1000)
		now, usedNow := time.Now(), threadTime()
		owed += now.Sub(then)*time.Duration(share)/1000 - (usedNow - used)
		owed = min(owed, largestDebt)
		if share == 0 {
			owed = 0
		}
		then, used = now, usedNow
		work(min(owed, period))
		time.Sleep(max(period-time.Since(now), 0))
	}
}

// start makes the worker ready: after a delay, and after work that takes as long as the CPU it is given lets it.
func (it *worker) start(delay, labour time.Duration) {
	runtime.LockOSThread()
	over := time.After(delay)
	work(labour)
	<-over
	it.ready.Store(true)
	runtime.UnlockOSThread()
}

// work burns CPU time of this thread.
func work(labour time.Duration) {
	for until := threadTime() + labour; threadTime() < until; {
		for range 1000 { // Few questions to the kernel.
			sink.Add(1)
		}
	}
}

var sink atomic.Int64

// threadTime is the CPU time that this thread has had.
func threadTime() time.Duration {
	usage := syscall.Rusage{}
	if err := syscall.Getrusage(threadUsage, &usage); err != nil {
		log.Fatal("getrusage: ", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
