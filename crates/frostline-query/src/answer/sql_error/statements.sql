-- Statements that people may write, of which most are wrong. An error of each is the statement's.
select 1 from logs where agent ~ 'bot('
select regexp_like(verb,'(') from logs
select regexp_replace(verb,'[','x') from logs
select regexp_match(verb,'*') from logs
select regexp_count(verb,'*') from logs
select regexp_instr(verb,'(?P<') from logs
select regexp_like(verb, host || '(') from logs
select regexp_like(verb, 'a', 'q') from logs
select regexp_count(verb, 'a', -1) from logs
select * from logs where verb similar to '('
select * from logs where verb like 5
select foo(1), bar(2) from logs
select foo, bar from logs
copy logs to '/tmp/x'
copy logs to '/tmp/x.csv' stored as csv
create table x as select 1
create external table x stored as csv location '/etc/passwd'
insert into logs values (1)
update logs set verb = 'x'
delete from logs
drop table logs
set a = 1
set datafusion.execution.batch_size = 1
show all
show columns from logs
show variables
describe logs
explain analyze select count(*) from logs
explain verbose select 1
begin
prepare p as select 1
execute p
use x
select match(agent) from logs
select match(agent, verb) from logs
select match(agent, 'x', 'y') from logs
select match('agent', 'x') from logs
select match(agent, 5) from logs
select sum(verb, host) from logs
select sum() from logs
select count(distinct *) from logs
select avg(agent) over (order by) from logs
select verb from logs group by host
select sum(sum(bytes)) from logs
select * from logs where sum(bytes) > 1
select * from nothing
select * from logs.x.y.z.w
select "a"."b"."c"."d" from logs
select 1 +
select 'a' + 1
select -'a'
select not 5 from logs
select 1 where 5
select * from logs where verb
select * from logs limit -1
select * from logs limit 'a'
select * from logs offset -1
select * from logs order by 99
select verb from logs union select 1, 2
select verb from logs union select 1
select (select 1, 2)
select (select host from logs)
select * from logs where host in (select 1, 2)
select cast('a' as int)
select cast('x' as timestamp)
select cast('x' as datetime)
select cast(1 as foo)
select cast('x' as interval)
select interval 'x'
select date '2024-13-45'
select 1/0
select 1%0
select cast(1 as bigint) / 0 from logs
select cast(9223372036854775807 as bigint) + 1
select abs(-9223372036854775808)
select date_trunc('foo', "@timestamp") from logs
select date_bin('5 foo', "@timestamp") from logs
select date_bin(interval '1 month', "@timestamp", 'x') from logs
select date_bin(interval '0 seconds', "@timestamp") from logs
select date_part('foo', "@timestamp") from logs
select extract(foo from "@timestamp") from logs
select to_timestamp('x')
select to_timestamp(verb) from logs
select to_date('x')
select to_char("@timestamp", '%Q') from logs
select to_char(5, 'x')
select make_date(2024, 13, 45)
select now() + 5
select "@timestamp" + 5 from logs
select "@timestamp" + "@timestamp" from logs
select "@timestamp" + interval '100000000 years' from logs
select "@timestamp" at time zone 'foo' from logs
select substr(verb, -5, -5) from logs
select substr(verb) from logs
select left(verb, 'x') from logs
select repeat(verb, -1) from logs
select repeat(verb, 'x') from logs
select lpad(verb, -5) from logs
select split_part(verb, '', 0) from logs
select chr(-1)
select chr(1114112)
select ascii(5)
select factorial(100)
select factorial(-1)
select sqrt(-1), ln(-1)
select power(10, 400)
select round(1.5, 'x')
select encode('a', 'foo')
select decode('zz', 'hex')
select decode('!!', 'base64')
select arrow_cast(1, 'Foo')
select arrow_cast('a', 'Int64')
select arrow_typeof()
select get_field(logs, 'x') from logs
select verb['x'] from logs
select verb[1] from logs
select [1,2,'a']
select make_array(1, 'a', true)
select array_element(1, 2)
select array_length(5)
select array_append(1, 2)
select array_concat([1], 'a')
select range(1, 10, 0)
select range(1.5, 2)
select generate_series(1, 'x')
select unnest(5)
select unnest(verb) from logs
select unnest([1]), unnest(5)
select * from unnest(1)
select * from generate_series(1)
select * from generate_series(1, 'x')
select * from generate_series(1, 10, 0)
select * from foo(1)
select named_struct('a')
select struct()
select map([1], [1, 2])
select map(1, 2)
select first_value(verb) over (rows between 5 following and 2 preceding) from logs
select lag(verb, 'x') over () from logs
select lag(verb, -9999999999999) over () from logs
select nth_value(verb, 0) over () from logs
select ntile(0) over () from logs
select ntile(-1) over (order by verb) from logs
select rank() from logs
select sum(bytes) over (range between 1 preceding and current row) from logs
select sum(bytes) over (order by verb range between 1 preceding and current row) from logs
select sum(bytes) over (order by bytes range between 'x' preceding and current row) from logs
select sum(bytes) over (rows between -1 preceding and current row) from logs
select approx_percentile_cont(bytes, 5) from logs
select approx_percentile_cont(bytes, 'x') from logs
select approx_percentile_cont(bytes, host) from logs
select percentile_cont(2) within group (order by bytes) from logs
select percentile_cont(0.5) from logs
select string_agg(verb) from logs
select string_agg(verb, host) from logs
select array_agg(verb order by) from logs
select nth_value(verb, 'x') from logs
select corr(verb, host) from logs
select median(verb) from logs
select grouping(verb) from logs
select verb from logs group by rollup(verb, )
select verb from logs group by grouping sets ((nope))
select case when 1 then 2 end from logs
select case verb when 1 then 'a' else 2 end from logs
select coalesce() from logs
select coalesce(1, 'a', true) from logs
select nullif(1) from logs
select greatest() from logs
select greatest(1, 'a') from logs
select * from logs a join logs b
select * from logs a join logs b using (nope)
select * from logs a join logs b on a.host
select host from logs a join logs b on a.host = b.host
select * from logs a natural join logs b limit 1
select * from logs a, lateral (select * from logs b where b.host = a.host limit 1) c
select * from logs where exists (select 1 from logs b where b.host = logs.host limit 1)
select * from logs where host = (select b.host from logs b where b.n = logs.n)
select * from logs where bytes > all (select bytes from logs)
select * from logs where bytes > any (select bytes from logs) limit 1
with recursive t as (select 1) select * from t
with recursive t as (select 1 as n union all select 'a' from t) select * from t limit 5
with t as (select 1), t as (select 2) select * from t
with t(a, b) as (select 1) select * from t
values (1), (1, 2)
values (1), ('a')
table logs limit 1
select top 5 * from logs
select * from logs fetch first 5 rows only
select * from logs for update
select * from logs qualify row_number() over () = 1
select distinct on (verb) verb from logs order by host
select * exclude (nope) from logs
select * except (verb) from logs limit 1
select * replace (1 as nope) from logs
select logs.* from logs b
select *, count(*) from logs
select count(*) as "" from logs
select x.* from logs
select histogram(bytes, 5) from logs
select year("@timestamp") from logs
select percentile(bytes, 99) from logs
select score() from logs
select $1
select ?
select :x
select @x
select @@x
select x'zz'
select 1e999
select 99999999999999999999999999
select cast(1e40 as decimal(38,0))
select cast(5 as decimal(99,2))
select cast(5 as decimal(5,10))
select 'unterminated
select "unterminated
select /* unterminated
select 1;select 2
;
select * from 'logs'
select * from "LOGS"
select LOGS.verb from logs
select * from logs where "@timestamp" > 'yesterday'
select * from logs where "@timestamp" > 5
select * from logs where bytes = 'abc'
select * from logs where host = 5
select * from logs where host between 1 and 'x'
select * from logs where host in (1, 'x', true)
select * from logs where (host, verb) in (('a','b'))
select * from logs where host is true
select * from logs where bytes is not true
select * from logs where host || 5 = 'a'
select * from logs where host @> 5
select * from logs where host -> 'a' = 5
select * from logs where host & 5
select bytes & 5 from logs
select bytes << 70 from logs
select status << 70 from logs
select status # 5 from logs
select status ^ 5 from logs
select ~status from logs
select @ status from logs
select |/ status from logs
select status!
select trim(both 5 from verb) from logs
select position(5 in verb) from logs
select overlay(verb placing 'x' from 'y') from logs
select translate(verb) from logs
select to_hex('x')
select to_hex(-1)
select uuid(1)
select random(1)
select version(1)
select file_row_index() from logs
select input_file_name() from logs
select cast_to_type(1, 2)
select with_metadata(1, 'a')
select union_tag(1)
select array_transform([1], x -> y)
select array_transform([1], 5)
select array_filter([1], x -> 'a')
select array_any_match([1], x -> x)
select frostline_compares(verb) from logs
select frostline_sum(verb, host) from logs
select frostline_same() from logs
select inner_product([1],[1,2])
select cosine_distance([1],[1,2])
select cosine_distance('a','b')
select array_resize([1], -1)
select array_resize([1], 'x')
select array_repeat(1, -1)
select array_slice([1], 'x', 2)
select array_sort([1], 'x')
select array_sort([1], 'DESC', 'x')
select array_position([1], 'a')
select array_to_string(5, ',')
select string_to_array('a', 5)
select flatten(5)
select cardinality(5)
select trunc('x')
select gcd(1, 'a')
select lcm(9223372036854775807, 2)
select gcd(-9223372036854775808, 0)
select log(-1, 5), log(0)
select date_format(5, 'x')
select from_unixtime('x')
select to_unixtime('x')
select to_local_time(5)
select make_time(25, 61, 61)
select to_time('x')
select current_date(5)
select levenshtein(1)
select find_in_set('a')
select substr_index('a', 'b')
select initcap(5)
select contains(verb) from logs
select starts_with(5, 6)
select isnan('x')
select nanvl('a', 1)
select bool_and(5) from logs
select bit_and(1.5) from logs
select bit_and(verb) from logs
select var(verb) from logs
select approx_distinct(bytes, 1) from logs
select approx_median(verb) from logs
select min(*) from logs
select max() from logs
select count() from logs
select count(verb, host) from logs
select first_value() from logs
select any_value(nope) from logs
select sum(bytes) filter (where 5) from logs
select sum(bytes) filter (where nope) from logs
select sum(distinct verb) from logs
select array_agg(distinct verb order by host) from logs
select string_agg(distinct verb, ',' order by host) from logs
select [[1]], x'ff', interval '1 day', make_date(2024, 1, 1)
select named_struct('a', 1)
select map(['a'], [1])
select [named_struct('a', 1)]
select arrow_cast('a', 'Dictionary(Int32, Utf8)')
select cast(1 as decimal(10, 3)), cast(1.5 as real)
select date_trunc('day', timestamp '9999-12-31')
select "@timestamp" + interval '500 years' from logs
select repeat('a', 10000000000)
select count(*) from unnest(range(1, 20000000000))
select levenshtein('a', 5)
select * from logs tablesample (5)
select * from logs pivot (sum(bytes) for verb in ('get'))
select * from logs match_recognize (pattern (a) define a as true)
select * from logs where match(verb)
select * from logs where match(verb, host)
select sum(bytes) from logs group by all
select bytes::foo from logs
select cast(verb as int) from logs
select try_cast(verb as int) from logs
merge into logs using logs b on true when matched then delete
truncate logs
alter table logs add column x int
create view v as select 1
create function f() returns int return 1
grant select on logs to x
kill 5
reset all
show tables like 'x'
show functions
show databases
show create table logs
analyze logs
vacuum
commit
call f()
declare c cursor for select 1
fetch 1 from c
