// The Wire<T> of every type that travels. Included by wire.h alone.
#pragma once

namespace parl {

namespace wire {

template <typename T>
inline constexpr bool kIsOpen = false;

// Smallest number of bytes of a T on the wire: at least one, so that counts can be checked against what is there.
inline constexpr size_t kMinBytes = 1;

template <typename... T>
void append_schemas(Schema& out) {
  [[maybe_unused]] bool first = true;
  ((out.text += std::exchange(first, false) ? "" : ",", append_schema<T>(out)), ...);
}

}  // namespace wire

template <wire::PlainNumber T>
struct Wire<T> {
  static void schema(Schema& out) { out.text += dtype_name(wire::number_dtype<T>()); }
  static void save(Writer& w, T value) { w.number(value); }
  static void load(Reader& r, T& value) { value = r.number<T>(); }
};

template <typename T>
requires std::is_enum_v<T>
struct Wire<T> {
  using Number = std::underlying_type_t<T>;
  static void schema(Schema& out) {
    out.text += "e:";
    Wire<Number>::schema(out);
  }
  static void save(Writer& w, T value) { w.number(static_cast<Number>(value)); }
  static void load(Reader& r, T& value) { value = static_cast<T>(r.number<Number>()); }
};

template <>
struct Wire<std::string> {
  static void schema(Schema& out) { out.text += 's'; }
  static void save(Writer& w, const std::string& value) { w.text(value); }
  static void load(Reader& r, std::string& value) { value = r.text(); }
};

template <>
struct Wire<std::monostate> {
  static void schema(Schema& out) { out.text += "()"; }
  static void save(Writer& w, std::monostate) { w.number<uint8_t>(0); }
  static void load(Reader& r, std::monostate&) { r.number<uint8_t>(); }
};

template <>
struct Wire<Array> {
  static void schema(Schema& out) { out.text += 'a'; }
  static void save(Writer& w, const Array& value);
  static void load(Reader& r, Array& value);
};

template <typename T, typename A>
struct Wire<std::vector<T, A>> {
  static void schema(Schema& out) {
    out.text += '[';
    wire::append_schema<T>(out);
  }
  static void save(Writer& w, const std::vector<T, A>& value) {
    w.number<uint64_t>(value.size());
    if constexpr (wire::kBulk<T>) {
      w.payload(value.data(), value.size() * sizeof(T));
    } else {
      for (const auto& item : value) wire::save<T>(w, item);
    }
  }
  static void load(Reader& r, std::vector<T, A>& value) {
    if constexpr (wire::kBulk<T>) {
      const size_t n = r.payload_count(sizeof(T));
      if (n * sizeof(T) > kInlineLimit) {  // one pass: no zeroing before the copy
        const ArrayBlock block = r.take_attachment(n * sizeof(T));
        const T* first = reinterpret_cast<const T*>(block.data());
        value.assign(first, first + n);
      } else {
        value.resize(n);
        r.payload(value.data(), n * sizeof(T));
      }
    } else {
      const Reader::Nesting nesting(r);
      const size_t n = r.count(wire::kMinBytes);
      value.clear();
      for (size_t i = 0; i < n; ++i) value.push_back(wire::load<T>(r));  // grows with what is really there
    }
  }
};

template <typename T, size_t N>
struct Wire<std::array<T, N>> {
  static void schema(Schema& out) {
    out.text += '[' + std::to_string(N) + ']';
    wire::append_schema<T>(out);
  }
  static void save(Writer& w, const std::array<T, N>& value) {
    if constexpr (N == 0) {
      w.number<uint8_t>(0);
    } else if constexpr (wire::kBulk<T>) {
      w.payload(value.data(), N * sizeof(T));
    } else {
      for (const T& item : value) wire::save(w, item);
    }
  }
  static void load(Reader& r, std::array<T, N>& value) {
    if constexpr (N == 0) {
      r.number<uint8_t>();
    } else if constexpr (wire::kBulk<T>) {
      r.payload(value.data(), N * sizeof(T));
    } else {
      for (T& item : value) wire::load(r, item);
    }
  }
};

template <typename T>
struct Wire<std::optional<T>> {
  static void schema(Schema& out) {
    out.text += '?';
    wire::append_schema<T>(out);
  }
  static void save(Writer& w, const std::optional<T>& value) {
    w.number(value.has_value());
    if (value) wire::save(w, *value);
  }
  static void load(Reader& r, std::optional<T>& value) {
    if (r.number<bool>()) {
      value = wire::load<T>(r);
    } else {
      value.reset();
    }
  }
};

template <typename T>
struct Wire<std::unique_ptr<T>> {
  static void schema(Schema& out) {
    out.text += '^';
    wire::append_schema<T>(out);
  }
  static void save(Writer& w, const std::unique_ptr<T>& value) {
    w.number(value != nullptr);
    if (value) wire::save(w, *value);
  }
  static void load(Reader& r, std::unique_ptr<T>& value) {
    value.reset();
    if (!r.number<bool>()) return;
    const Reader::Nesting nesting(r);
    value = std::make_unique<T>();
    wire::load(r, *value);
  }
};

template <typename... T>
struct Wire<std::tuple<T...>> {
  static void schema(Schema& out) {
    out.text += '(';
    wire::append_schemas<T...>(out);
    out.text += ')';
  }
  static void save(Writer& w, const std::tuple<T...>& value) {
    if constexpr (sizeof...(T) == 0) w.number<uint8_t>(0);
    std::apply([&](const T&... item) { (wire::save<T>(w, item), ...); }, value);
  }
  static void load(Reader& r, std::tuple<T...>& value) {
    if constexpr (sizeof...(T) == 0) r.number<uint8_t>();
    std::apply([&](T&... item) { (wire::load<T>(r, item), ...); }, value);
  }
};

template <typename A, typename B>
struct Wire<std::pair<A, B>> {
  static void schema(Schema& out) { Wire<std::tuple<A, B>>::schema(out); }
  static void save(Writer& w, const std::pair<A, B>& value) {
    wire::save<A>(w, value.first);
    wire::save<B>(w, value.second);
  }
  static void load(Reader& r, std::pair<A, B>& value) {
    wire::load<A>(r, value.first);
    wire::load<B>(r, value.second);
  }
};

template <typename... T>
struct Wire<std::variant<T...>> {
  static void schema(Schema& out) {
    out.text += "|(";
    wire::append_schemas<T...>(out);
    out.text += ')';
  }
  static void save(Writer& w, const std::variant<T...>& value) {
    w.number<uint32_t>(static_cast<uint32_t>(value.index()));  // valueless becomes an index that the reader refuses
    if (!value.valueless_by_exception()) std::visit([&](const auto& item) { wire::save(w, item); }, value);
  }
  static void load(Reader& r, std::variant<T...>& value) {
    const auto index = r.number<uint32_t>();
    if (index >= sizeof...(T)) r.fail("alternative {} of {}", index, sizeof...(T));
    load_index(r, value, index, std::index_sequence_for<T...>{});
  }

 private:
  template <size_t... I>
  static void load_index(Reader& r, std::variant<T...>& value, size_t index, std::index_sequence<I...>) {
    ((I == index ? (void)value.template emplace<I>(wire::load<std::variant_alternative_t<I, std::variant<T...>>>(r))
                 : (void)0),
     ...);
  }
};

namespace wire {

// map, unordered_map: <K,V
template <typename M>
struct MapWire {
  using K = typename M::key_type;
  using V = typename M::mapped_type;
  static void schema(Schema& out) {
    out.text += '<';
    append_schemas<K, V>(out);
  }
  static void save(Writer& w, const M& value) {
    w.number<uint64_t>(value.size());
    for (const auto& [k, v] : value) {
      wire::save<K>(w, k);
      wire::save<V>(w, v);
    }
  }
  static void load(Reader& r, M& value) {
    const Reader::Nesting nesting(r);
    const size_t n = r.count(2 * kMinBytes);
    value.clear();
    for (size_t i = 0; i < n; ++i) {
      K key = wire::load<K>(r);
      value.emplace(std::move(key), wire::load<V>(r));
    }
  }
};

// set, unordered_set: #T
template <typename S>
struct SetWire {
  using K = typename S::key_type;
  static void schema(Schema& out) {
    out.text += '#';
    append_schema<K>(out);
  }
  static void save(Writer& w, const S& value) {
    w.number<uint64_t>(value.size());
    for (const K& k : value) wire::save<K>(w, k);
  }
  static void load(Reader& r, S& value) {
    const Reader::Nesting nesting(r);
    const size_t n = r.count(kMinBytes);
    value.clear();
    for (size_t i = 0; i < n; ++i) value.insert(wire::load<K>(r));
  }
};

}  // namespace wire

template <typename K, typename V, typename... R>
struct Wire<std::map<K, V, R...>> : wire::MapWire<std::map<K, V, R...>> {};
template <typename K, typename V, typename... R>
struct Wire<std::unordered_map<K, V, R...>> : wire::MapWire<std::unordered_map<K, V, R...>> {};
template <typename K, typename... R>
struct Wire<std::set<K, R...>> : wire::SetWire<std::set<K, R...>> {};
template <typename K, typename... R>
struct Wire<std::unordered_set<K, R...>> : wire::SetWire<std::unordered_set<K, R...>> {};

template <typename T>
requires HasFields<T>
struct Wire<T> {
  static void schema(Schema& out) {
    const void* tag = &wire::kTypeTag<T>;
    for (size_t i = 0; i < out.open.size(); ++i) {
      if (out.open[i] == tag) {
        out.text += '@' + std::to_string(out.open.size() - i);
        return;
      }
    }
    out.open.push_back(tag);
    out.text += '{';
    bool first = true;
    std::apply(
        [&]<typename... M>(const Field<T, M>&... field) {
          ((out.text += std::exchange(first, false) ? "" : ",", out.text += field.name, out.text += ':',
            wire::append_schema<M>(out)),
           ...);
        },
        parl_fields(std::type_identity<T>{}));
    out.text += '}';
    out.open.pop_back();
  }
  static void save(Writer& w, const T& value) {
    if constexpr (std::tuple_size_v<decltype(parl_fields(std::type_identity<T>{}))> == 0) w.number<uint8_t>(0);
    for_each_field(value, [&](const char*, const auto& member, const char*) { wire::save(w, member); });
  }
  static void load(Reader& r, T& value) {
    if constexpr (std::tuple_size_v<decltype(parl_fields(std::type_identity<T>{}))> == 0) r.number<uint8_t>();
    for_each_field(value, [&](const char*, auto& member, const char*) { wire::load(r, member); });
  }
};

namespace wire {

// ---- Travels<T, Open...>::value: T and all its parts have a Wire ----

template <typename T, typename... Open>
struct Travels {
  static constexpr bool check() {
    if constexpr ((std::is_same_v<T, Open> || ...)) {
      return true;  // inside itself
    } else if constexpr (HasFields<T>) {
      return std::is_default_constructible_v<T> && fields(parl_fields(std::type_identity<T>{}));
    } else {
      return !std::is_const_v<T> && !std::is_reference_v<T> && std::is_default_constructible_v<T> && kHasOwnWire<T>;
    }
  }
  template <typename... M>
  static constexpr bool fields(const std::tuple<Field<T, M>...>&) {
    return (kTravels<M, T, Open...> && ...);
  }
  static constexpr bool value = check();
};

template <typename T, typename A, typename... Open>
struct Travels<std::vector<T, A>, Open...> : std::bool_constant<kTravels<T, Open...>> {};
template <typename T, size_t N, typename... Open>
struct Travels<std::array<T, N>, Open...> : std::bool_constant<kTravels<T, Open...>> {};
template <typename T, typename... Open>
struct Travels<std::optional<T>, Open...> : std::bool_constant<kTravels<T, Open...>> {};
// Not a base class: what it points at would be cut down to the base on the way.
template <typename T, typename... Open>
struct Travels<std::unique_ptr<T>, Open...>
    : std::bool_constant<!std::is_array_v<T> &&
                         (!std::is_polymorphic_v<T> || std::is_final_v<T>)&&kTravels<T, Open...>> {};
template <typename A, typename B, typename... Open>
struct Travels<std::pair<A, B>, Open...> : std::bool_constant<kTravels<A, Open...> && kTravels<B, Open...>> {};
template <typename... T, typename... Open>
struct Travels<std::tuple<T...>, Open...> : std::bool_constant<(kTravels<T, Open...> && ...)> {};
template <typename... T, typename... Open>
struct Travels<std::variant<T...>, Open...> : std::bool_constant<(kTravels<T, Open...> && ...)> {};
template <typename K, typename V, typename... R, typename... Open>
struct Travels<std::map<K, V, R...>, Open...> : std::bool_constant<kTravels<K, Open...> && kTravels<V, Open...>> {};
template <typename K, typename V, typename... R, typename... Open>
struct Travels<std::unordered_map<K, V, R...>, Open...>
    : std::bool_constant<kTravels<K, Open...> && kTravels<V, Open...>> {};
template <typename K, typename... R, typename... Open>
struct Travels<std::set<K, R...>, Open...> : std::bool_constant<kTravels<K, Open...>> {};
template <typename K, typename... R, typename... Open>
struct Travels<std::unordered_set<K, R...>, Open...> : std::bool_constant<kTravels<K, Open...>> {};

}  // namespace wire
}  // namespace parl
