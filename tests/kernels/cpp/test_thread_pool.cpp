#include "decoder/thread_pool.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using kernels::ThreadPool;

TEST(every_index_is_visited_once) {
  for (const int threads : {1, 2, 3, 7, 31, 32, 64}) {  // from 32 on a part a thread, from 63 on fewer
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 5, 64, 1000}) {
      for (const std::int64_t grain : {1, 4, 2000}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
        pool.run(count, grain, [&](int, std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (const auto& times : seen) CHECK_EQ(times.load(), 1);
      }
    }
  }
}

TEST(an_exception_of_any_part_reaches_the_caller_and_the_pool_goes_on) {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    const int thrower = round % 3;
    std::string caught;
    try {
      pool.run(3, 1, [&](int, std::int64_t begin, std::int64_t) {
        if (begin >= thrower) throw std::runtime_error("part " + std::to_string(begin));
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    CHECK_EQ(caught, "part " + std::to_string(thrower));
    std::atomic<int> parts{0};
    pool.run(3, 1, [&](int, std::int64_t, std::int64_t) { ++parts; });
    CHECK_EQ(parts.load(), 3);
  }
}

TEST(the_caller_does_what_no_other_thread_has_begun) {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.run(4, 1, [&](int thread, std::int64_t, std::int64_t) {
    // the other thread stays with its first part until all the rest is done, by the caller
    while (thread != 0 && done < 3) std::this_thread::yield();
    ++done;
  });
  CHECK_EQ(done.load(), 4);
}

TEST(a_thread_keeps_its_parts_from_run_to_run) {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> inside{0}, elsewhere{0};
    pool.run(3, 1, [&](int thread, std::int64_t begin, std::int64_t) {
      elsewhere += begin != thread;
      ++inside;
      while (inside < 3) std::this_thread::yield();  // nobody gets a second part
    });
    CHECK_EQ(elsewhere.load(), 0);
  }
}

TEST(many_short_runs_lose_and_repeat_nothing) {
  ThreadPool pool(4);
  for (int round = 0; round < 20000; ++round) {
    std::atomic<int> sum{0};
    pool.run(7, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum += 1 << i;
    });
    CHECK_EQ(sum.load(), 127);
  }
}

TEST(no_threads_are_refused) {
  bool refused = false;
  try {
    ThreadPool pool(0);
  } catch (const kernels::KernelError&) {
    refused = true;
  }
  CHECK(refused);
}
