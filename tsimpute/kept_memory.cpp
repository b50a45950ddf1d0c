// Memory of torch's tensors on the CPU, kept when a tensor is gone and handed out again to the next one of its size.
//
// Tensors of ragged records have a new size in every step. The system's allocator splits and sorts what they leave
// behind, more slowly the longer a program runs. Here sizes are rounded up to one of eight for each power of two, and a
// block is only ever used for its own size. All memory comes from torch's own allocator, never more than a quarter
// beyond what tensors have needed at once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include <pthread.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace {

constexpr size_t kHeader = 64; // what a block's size class stands in; a multiple of torch's alignment
constexpr int kSteps = 8;      // sizes for each power of two, at most an eighth of a block is empty

size_t n_bytes(int number) {
    const size_t base = size_t{1} << (number / kSteps);
    return base + number % kSteps * (base / kSteps);
}

struct Size {
    int number;
    size_t n_bytes;
};

Size rounded(size_t n) {
    int power = 6;
    while ((size_t{1} << (power + 1)) < n) power++;
    const size_t base = size_t{1} << power, step = base / kSteps;
    const size_t above = n <= base ? 0 : (n - base + step - 1) / step; // 0 to 8
    const int number = power * kSteps + static_cast<int>(above);
    return {number, n_bytes(number)};
}

class Keeping final : public c10::Allocator {
  public:
    explicit Keeping(c10::Allocator *from) : from_(from) {}

    c10::DataPtr allocate(size_t n) override {
        if (n == 0) return {nullptr, nullptr, &give_back, c10::Device(c10::DeviceType::CPU)};
        const Size size = rounded(n);
        char *block = kept(size);
        if (block == nullptr) {
            block = fresh(size);
            const std::lock_guard<std::mutex> held(mutex_);
            use(size.n_bytes);
        }
        *reinterpret_cast<int64_t *>(block) = size.number;
        void *data = block + kHeader;
        return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
    }

    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

    void copy_data(void *to, const void *source, std::size_t n) const override { default_copy_data(to, source, n); }

    void keep(bool keeps) {
        std::vector<char *> blocks;
        {
            const std::lock_guard<std::mutex> held(mutex_);
            keeps_ = keeps;
            if (!keeps) blocks = all_but(0);
            most_used_ = n_used_;
        }
        free_all(blocks);
    }

    int64_t n_kept() {
        const std::lock_guard<std::mutex> held(mutex_);
        return static_cast<int64_t>(n_kept_);
    }

    c10::Allocator *from() const { return from_; }

    std::mutex &mutex() { return mutex_; }

  private:
    void use(size_t n) {
        n_used_ += n;
        if (n_used_ > most_used_) most_used_ = n_used_;
    }

    // A kept block of that size; nullptr where there is none, and then there is room for a new one.
    char *kept(const Size &size) {
        std::vector<char *> too_many;
        {
            const std::lock_guard<std::mutex> held(mutex_);
            auto &blocks = kept_[size.number];
            if (!blocks.empty()) {
                char *block = blocks.back();
                blocks.pop_back();
                n_kept_ -= size.n_bytes;
                use(size.n_bytes);
                return block;
            }
            const size_t used = n_used_ + size.n_bytes, most = used > most_used_ ? used : most_used_;
            too_many = all_but(most + most / 4 - used);
        }
        free_all(too_many);
        return nullptr;
    }

    // Takes kept blocks, the largest first, until no more than n bytes are left.
    std::vector<char *> all_but(size_t n) {
        std::vector<char *> found;
        for (int number = kept_.size() - 1; number >= 0 && n_kept_ > n; number--)
            for (auto &blocks = kept_[number]; !blocks.empty() && n_kept_ > n; blocks.pop_back()) {
                found.push_back(blocks.back());
                n_kept_ -= n_bytes(number);
            }
        return found;
    }

    void free_all(const std::vector<char *> &blocks) {
        for (char *block : blocks) from_->raw_deallocate(block);
    }

    char *fresh(const Size &size) {
        try {
            return static_cast<char *>(from_->raw_allocate(size.n_bytes + kHeader));
        } catch (...) { // there may be enough once nothing is kept; if not, torch says so in its own words
            std::vector<char *> blocks;
            {
                const std::lock_guard<std::mutex> held(mutex_);
                blocks = all_but(0);
            }
            free_all(blocks);
        }
        return static_cast<char *>(from_->raw_allocate(size.n_bytes + kHeader));
    }

    static void give_back(void *data);

    void take_back(char *block) {
        const int number = static_cast<int>(*reinterpret_cast<int64_t *>(block));
        {
            const std::lock_guard<std::mutex> held(mutex_);
            n_used_ -= n_bytes(number);
            try { // to throw is not allowed here
                if (keeps_) {
                    kept_[number].push_back(block);
                    n_kept_ += n_bytes(number);
                    return;
                }
            } catch (const std::bad_alloc &) {
            }
        }
        from_->raw_deallocate(block);
    }

    c10::Allocator *from_;
    std::mutex mutex_;
    std::array<std::vector<char *>, 64 * kSteps> kept_;
    size_t n_kept_ = 0, n_used_ = 0, most_used_ = 0;
    bool keeps_ = false;
};

Keeping *keeping = nullptr; // never deleted: a tensor may outlive everything

void Keeping::give_back(void *data) {
    if (data != nullptr) keeping->take_back(static_cast<char *>(data) - kHeader);
}

} // namespace

extern "C" {

void begin(void) {
    if (keeping == nullptr) {
        keeping = new Keeping(c10::GetCPUAllocator());
        // A process that is forked while a thread allocates must not begin with a lock that none will give back.
        const auto unlock = [] { keeping->mutex().unlock(); };
        pthread_atfork([] { keeping->mutex().lock(); }, unlock, unlock);
    }
    keeping->keep(true);
    c10::SetCPUAllocator(keeping);
}

void end(void) {
    if (keeping == nullptr) return;
    c10::SetCPUAllocator(keeping->from());
    keeping->keep(false);
}

int64_t n_kept(void) { return keeping == nullptr ? 0 : keeping->n_kept(); }
}
