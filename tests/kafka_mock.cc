// Kafka brokers for tests (librdkafka's mock cluster) in a process of their own. Prints their
// address, then reads commands from stdin and answers each with a line:
//   topic NAME PARTITIONS
//   send TOPIC PARTITION FILE LINES   messages of LINES lines of the file each; 0: the file is one
//   stop | start                      the brokers
// Ends with stdin.
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

#include "core/files/file.h"
#include "emblem/error.h"
#include "kafka/address.h"
#include "kafka/producer.h"

namespace {

using emblem::KafkaProducer;

void send(KafkaProducer& producer, const std::string& topic, int partition, const std::string& file,
          int lines) {
  if (lines == 0) {
    producer.send_to(topic, partition, emblem::read_text_file(file));
  } else {
    std::ifstream input(file);
    std::string line, message;
    int held = 0;
    const auto send_held = [&] {
      if (held > 0) producer.send_to(topic, partition, message);
      message.clear();
      held = 0;
    };
    while (std::getline(input, line)) {
      message += line + "\n";
      if (++held == lines) send_held();
    }
    send_held();
  }
  producer.flush(std::chrono::seconds(120));
}

void obey(KafkaProducer& producer, const std::string& command) {
  std::istringstream words(command);
  std::string what, name, file;
  int number = 0, lines = 0;
  words >> what >> name >> number >> file >> lines;
  if (what == "topic") {
    producer.create_topic(name, number);
  } else if (what == "send") {
    send(producer, name, number, file, lines);
  } else if (what == "stop") {
    producer.stop_brokers();
  } else if (what == "start") {
    producer.restart_brokers();
  } else {
    throw emblem::Error(emblem::ErrorCode::kInvalidArgument, "unknown command");
  }
}

}  // namespace

int main() {
  if (!emblem::has_kafka()) return 77;
  KafkaProducer producer = KafkaProducer::with_mock_brokers(1);
  std::cout << producer.brokers() << std::endl;
  std::string command;
  while (std::getline(std::cin, command)) {
    try {
      obey(producer, command);
      std::cout << "done" << std::endl;
    } catch (const std::exception& error) {
      std::cout << "failed: " << error.what() << std::endl;
    }
  }
}
